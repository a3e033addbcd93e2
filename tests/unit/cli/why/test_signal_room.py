"""A signal is refused before it is sent when its execution keeps as many as it may."""

from types import SimpleNamespace
from typing import Any

import pytest

from services.cli.console import exits
from services.cli.console.exits import CliError
from services.cli.why import signals
from shared.engine.scheduling.signals import FULL, MAX_SIGNAL_BYTES, MAX_SIGNALS
from shared.events import model as ev
from shared.events.record import Record


def _book(count: int, payload: Any) -> Any:
    entries = [
        (n, Record("x", "control", 1, "2026-01-01T00:00:00Z", (ev.SignalReceived("go", payload),), source=f"s{n}"))
        for n in range(1, count + 1)
    ]

    async def ask(work: Any) -> Any:
        return work()

    return SimpleNamespace(execution_id="x", entries=entries, plans=None, values={}, ask=ask)


@pytest.mark.parametrize(("count", "kept"), [(MAX_SIGNALS, 1), (MAX_SIGNAL_BYTES // 120_000, "x" * 120_000)])
async def test_a_signal_that_would_not_be_kept_is_refused(count: int, kept: Any) -> None:
    with pytest.raises(CliError) as refused:
        await signals.check(_book(count, kept), "go", "x" * 120_000)
    assert refused.value.code == exits.CONFLICT
    assert FULL in str(refused.value)


async def test_one_that_is_kept_is_not() -> None:
    await signals.check(_book(MAX_SIGNALS - 1, 1), "go", 1)
