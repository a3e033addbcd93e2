"""noetlctl pool as people meet it: help with an example, lengths of time."""

import click
import pytest

from services.cli.commands.pool import Length, command
from services.cli.console import times
from services.cli.pools.views import worker_line, worker_row
from shared.events.stamp import stamp
from shared.runtime.stores.pool_state import WorkerState

NOW = 1_800_000_000.0

WORDS = {
    "apply", "create", "diff", "list", "describe", "scale", "pause", "resume", "drain", "restart", "delete", "top",
    "workers", "logs",
}


def test_every_command_is_there() -> None:
    assert set(command.commands) == WORDS


@pytest.mark.parametrize("name", sorted(WORDS))
def test_help_has_an_example_that_is_a_call_of_the_command(name: str) -> None:
    found = command.commands[name]
    assert found.epilog is not None
    assert found.epilog.startswith(f"Example: noetlctl pool {name}")
    assert (found.help or "").rstrip().endswith((".", "it"))


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90.0), ("10m", 600.0), ("1h30m", 5400.0), ("45", 45.0)])
def test_a_length_of_time_has_a_unit_or_is_seconds(text: str, seconds: float) -> None:
    assert Length().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["soon", "-5", "0", "400d", ""])
def test_what_is_no_length_of_time_is_refused_with_the_fix(text: str) -> None:
    with pytest.raises(click.BadParameter, match="write 90s, 10m or 1h30m"):
        Length().convert(text, None, None)


def test_of_a_silent_worker_is_told_since_when_and_not_what_it_holds() -> None:
    silent = WorkerState("etl-1-5a05", "etl", "silent", since=NOW - 60, pid=71, silent_since=NOW)
    since, silence = times.shown(stamp(NOW - 60)), times.shown(stamp(NOW))
    assert worker_line(worker_row(silent)) == f"etl-1-5a05: silent since {silence}, pid 71, since {since}"
    ready = WorkerState("etl-1-5a05", "etl", "ready", 4, (("x", "r", -1),), NOW, pid=71)
    assert worker_line(worker_row(ready)) == f"etl-1-5a05: ready, 1 of 4 slots, pid 71, since {silence}"
