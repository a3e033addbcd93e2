"""noetlctl pool as people meet it: help with an example, lengths of time."""

import click
import pytest

from services.cli.pool import Length, command

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
