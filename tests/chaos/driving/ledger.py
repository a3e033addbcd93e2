"""Loops whose every iteration writes a row: what the log and the ledger must say of them in the end."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import asyncpg
import msgspec

from shared.answers.history.history import Entry
from shared.answers.verify.reports import TERMINAL, history_of
from shared.bus import topology
from shared.bus.jetstream import JetStreamBus
from shared.events import model as ev
from tests.chaos.driving.killing import Kill, cut_off
from tests.chaos.driving.log import Log
from tests.chaos.driving.pages import CREDENTIAL

CALLS = "CREATE TABLE IF NOT EXISTS calls (execution text, number int, attempt int)"
WIDTHS = (8, 4, 2, 1)  # iterations in flight, one loop after the other: never more calls than connections
NAP_S = 0.2  # longer than a worker keeps to itself that a call has begun


class Figures(NamedTuple):
    """Of all loops together. `in_flight`: iterations a worker had when it was killed, over all kills; `beyond`: rows
    that no kill explains."""

    iterations: int
    rows: int
    in_flight: int
    beyond: int

    @property
    def duplicates(self) -> int:
        return self.rows - self.iterations


async def prepare(bus: JetStreamBus, dsn: str) -> None:
    await bus.kv_put(topology.KEYCHAIN, CREDENTIAL, msgspec.json.encode({"dsn": dsn}))
    connection = await asyncpg.connect(dsn)
    await connection.execute(CALLS)
    await connection.close()


def payloads(tag: str, loops: int, iterations: int) -> dict[str, dict[str, object]]:
    return {
        f"{tag}-{i}": {"iterations": iterations, "in_flight": WIDTHS[i % len(WIDTHS)], "nap_s": NAP_S}
        for i in range(loops)
    }


async def calls(dsn: str, execution: str) -> Counter[int]:
    """Rows of each iteration. No call failed, so none was tried again by a rule."""
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch("SELECT number, attempt FROM calls WHERE execution = $1", execution)
    finally:
        await connection.close()
    assert {row["attempt"] for row in rows} == {1}
    return Counter(row["number"] for row in rows)


def check_loop(execution: str, entries: Sequence[Entry], iterations: int, *, reported_once: bool = True) -> None:
    """Every index started once, ended once and well; `loop.done` once, and after the last of them. Where leases are
    lost, the worker that had one may report too, which no reader counts: then the ends are not `reported_once`."""
    history, wanted = history_of(execution, entries), dict.fromkeys(range(iterations), 1)
    started, terminal = Counter[int](), Counter[int]()
    for _, record, event in history.events("scheduler", "iteration"):
        if isinstance(event, ev.IterationStarted):
            started.update(range(event.first, event.first + event.count))
        elif isinstance(event, TERMINAL):
            assert isinstance(event, ev.IterationDone), event
            assert record.lease is not None
            terminal[record.lease.index] += 1
    assert started == wanted, f"{execution}: started {started - Counter(wanted)} again"
    if reported_once:
        assert terminal == wanted, f"{execution}: ended {terminal - Counter(wanted)} again"
    ends = {key.index: held.end for key, held in history.held.items() if key.index >= 0}
    assert ends.keys() == wanted.keys(), execution
    assert all(ends.values()), f"{execution}: an end that does not count"
    ((at, done),) = [(seq, event) for seq, _, event in history.events("scheduler") if isinstance(event, ev.LoopDone)]
    assert (done.count, done.failed, done.failures, done.stopped) == (iterations, 0, [], False)
    assert at > max(ends.values()), f"{execution}: loop.done before the last iteration"


async def check_calls(dsn: str, log: Log, executions: Sequence[str], iterations: int, kills: list[Kill]) -> Figures:
    """Each iteration made its call, and once more at most for every kill that cut it off."""
    rows = in_flight = beyond = 0
    for execution in executions:
        entries = log.histories[execution]
        check_loop(execution, entries, iterations)
        found, cuts = await calls(dsn, execution), cut_off(entries, kills)
        assert found.keys() == set(range(iterations)), f"{execution}: not every iteration made its call"
        again = Counter({key: found[key.index] - 1 - len(cut) for key, cut in cuts.items()})
        assert +again == {}, f"{execution}: called again although no kill cut them off: {+again}"
        rows, beyond = rows + found.total(), beyond + (+again).total()
        in_flight += sum(map(len, cuts.values()))
    figures = Figures(len(executions) * iterations, rows, in_flight, beyond)
    assert figures.duplicates <= figures.in_flight
    return figures
