"""What counts as cut off by a kill: the checks of loops allow one more call for it, and for nothing else."""

import pytest

from shared.answers.history.history import Entry, Key
from shared.events import model as ev
from shared.events.outcome import ok
from shared.events.record import Lease, Record
from shared.events.stamp import stamp
from tests.chaos.driving.killing import Kill, cut_off

RUN, AT = "s-1", 1_000_000.0
CALLED = (ev.StepStarted(), ev.TaskStarted("store"))
ENDED = (*CALLED, ev.TaskDone("store", 1, ok({}), "continue"), ev.IterationDone())


def record(at: float, events: tuple[ev.Event, ...], worker: str = "", delivery: int = 0) -> Record:
    lease = Lease(RUN, "start", (1, delivery), worker, 0) if worker else None
    return Record("e", "iteration" if worker else "scheduler", 1, stamp(AT + at), events, lease=lease)


def log(*records: Record) -> list[Entry]:
    return list(enumerate((record(0, (ev.IterationStarted(RUN, 0),)), *records), start=1))


def cuts(entries: list[Entry], *kills: Kill) -> int:
    return len(cut_off(entries, kills)[Key(RUN, 0)])


@pytest.mark.parametrize(("victim", "at", "counted"), [
    ("worker-g", 2, 1),     # had it
    ("worker-h", 2, 0),     # had not
    ("worker-g", 0.5, 0),   # before it had it
    ("worker-g", 9, 0),     # when it was over
    ("scheduler-g", 2, 0),  # makes no calls
])  # fmt: skip
def test_an_iteration_is_cut_off_by_a_kill_of_the_worker_that_has_it(victim: str, at: float, counted: int) -> None:
    entries = log(record(1, CALLED, "worker-g", 1), record(8, ENDED, "worker-h", 2))
    assert cuts(entries, Kill(victim, AT + at)) == counted


@pytest.mark.parametrize(("delivery", "kills", "counted"), [
    (1, ("worker-g",), 0),              # the first delivery came through
    (2, ("worker-g",), 1),
    (2, ("worker-g", "worker-h"), 1),
    (3, ("worker-g", "worker-h"), 2),
    (3, ("router-g",), 0),              # handed back, and nobody died
])  # fmt: skip
def test_a_delivery_that_nobody_spoke_of_is_cut_off_if_a_worker_was_killed(
    delivery: int, kills: tuple[str, ...], counted: int
) -> None:
    entries = log(record(8, ENDED, "worker-h", delivery))
    assert cuts(entries, *(Kill(victim, AT + 2) for victim in kills)) == counted


def test_an_iteration_that_waits_is_in_nobody_s_hands() -> None:
    waiting = (*CALLED, ev.TaskWaiting("store", 1, "w"))
    entries = log(record(1, waiting, "worker-g", 1), record(8, ENDED, "worker-h", 1))
    assert cuts(entries, Kill("worker-g", AT + 2)) == 0
