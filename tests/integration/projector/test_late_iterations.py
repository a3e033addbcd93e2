"""An iteration that begins or goes on after its loop has failed: the same rows wherever a batch ends."""

from collections.abc import Iterator

import asyncpg
import pytest

from shared.events import model as ev
from shared.events.outcome import failed, ok
from shared.events.record import Lease, Record
from shared.events.stamp import stamp
from shared.runtime.readmodel.store import project
from tests.integration.projector.history import T0, Log
from tests.integration.projector.tables import dump, folded

RUN, ERROR = "start:1", {"kind": "broken", "message": "no"}


def reported(at: float, index: int, n: int, *events: ev.Event) -> Record:
    lease = Lease(RUN, "start", (1 + index, 1), "w", index)
    return Record("e", "iteration", n, stamp(T0 + at), events, lease=lease)


def history() -> Iterator[Record]:
    """The first fails; the second was under way then, the third is given to a worker a moment later and told to stop,
    the fourth ended just before."""
    called = ev.StepStarted(), ev.TaskStarted("t", 1)
    started = ev.LoopStarted(RUN, "start", count=4), ev.IterationStarted(RUN, 0, 4)
    broken = ev.TaskDone("t", 1, failed("broken", "no"), "fail"), ev.IterationFailed(error=ERROR)
    yield Record("e", "scheduler", 1, stamp(T0), started)
    yield reported(1, 1, 1, *called)
    yield reported(2, 3, 1, *called, ev.TaskDone("t", 1, ok(1), "continue"), ev.IterationDone())
    yield reported(3, 0, 1, *called, *broken)
    yield Record("e", "scheduler", 3, stamp(T0 + 4), (ev.StepFailed(run_id=RUN, error=ERROR),))
    yield reported(5, 2, 1, *called)
    yield reported(6, 2, 3, ev.IterationFailed(error=ERROR))
    yield reported(7, 1, 3, ev.IterationFailed(error=ERROR))


@pytest.mark.parametrize("cut", range(1, 8))
async def test_rows_do_not_depend_on_where_a_batch_ends(db: asyncpg.Connection, cut: int) -> None:
    log = Log(1)
    for record in history():
        log.write(record)
    messages = log.messages(0)
    await project(db, 0, 1, messages[:cut], 0)
    await project(db, 0, 1, messages[cut:], cut)
    assert await dump(db) == await folded(db, log)
