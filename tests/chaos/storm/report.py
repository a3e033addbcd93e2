"""What a storm prints: its table, and for what went wrong the history, the calls, the faults around, and why."""

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from shared.events.stamp import seconds
from shared.runtime.service.main import OK
from tests.chaos.storm.checks import Again
from tests.chaos.storm.faults import Fault
from tests.chaos.storm.ledger import Called
from tests.chaos.storm.watch import Watch
from tests.support.cli import run
from tests.support.paths import ROOT

MAX_STORIES = 6
MAX_LINES = 400
AROUND_S = 40.0


class Clocks(NamedTuple):
    """Both clocks of the harness when the storm began: the log has one, the ledger the other."""

    wall: float
    monotonic: float


def shown(again: Again, clocks: Clocks) -> str:
    first, second = again.first, again.second
    return (
        f"{second.key}: {first.worker} at {first.at - clocks.monotonic:.2f} s, "
        f"{second.worker} at {second.at - clocks.monotonic:.2f} s, explained by: {again.by or 'NOTHING'}"
    )


async def story(
    execution_id: str, watch: Watch, calls: Sequence[Called], faults: Sequence[Fault], clocks: Clocks,
    url: dict[str, str],
) -> Iterator[str]:
    """In order of time: what the log has, what was called, what was broken."""
    lines: list[tuple[float, str]] = []
    for seq, record in await watch.history(execution_id):
        who = f"{record.writer} {record.source}"
        if record.lease is not None:
            lease = record.lease
            who = f"{record.writer} {lease.worker} {lease.run_id}.{lease.index} epoch {lease.epoch}"
        names = ", ".join(type(event).__name__ for event in record.events)
        lines.append((seconds(record.ts) - clocks.wall, f"log {seq} {who}: {names}"))
    lines += [(call.at - clocks.monotonic, f"call {call.key} by {call.worker}: {call.status}") for call in calls]
    if lines:
        first, last = min(lines)[0], max(lines)[0]
        lines += [
            (fault.began - clocks.monotonic, f"FAULT {fault}")
            for fault in faults
            if first - 1 <= fault.ended - clocks.monotonic and fault.began - clocks.monotonic <= last + AROUND_S
        ]
    answer = await asyncio.to_thread(partial(run, "why", execution_id, cwd=ROOT, **url))  # the proxies live here
    return _told(execution_id, sorted(lines), answer.stdout if answer.returncode == OK else answer.stderr)


def _told(execution_id: str, lines: list[tuple[float, str]], why: str) -> Iterator[str]:
    yield f"--- {execution_id}"
    cut = lines if len(lines) <= MAX_LINES else [*lines[: MAX_LINES // 2], (0.0, "…"), *lines[-MAX_LINES // 2 :]]
    for at, text in cut:
        yield f"  {at:8.2f} s {text}"
    yield f"  why: {why.strip()}"
