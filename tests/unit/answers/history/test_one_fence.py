"""Every reader of a log counts the same reports of workers.

A history is told with what the fence is there for: a zombie's late records, records that are in the log twice, and
records after the end. To each reader it has to be the same as the history without them, record by record; and what the
readers say of the same thing has to be the same.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from services.cli.executions import values
from services.cli.executions.description import Portrait, shown
from shared.answers.history.history import History
from shared.answers.history.summary import Summary
from shared.answers.readmodel import fold as readmodel
from shared.answers.readmodel.entry import Entry as Message
from shared.answers.readmodel.rows import Rows
from shared.answers.verify.reports import accepted
from shared.answers.why.view import View, viewed
from shared.engine.pipeline import history as pipeline_history
from shared.engine.pipeline.local_history import accept_loop
from shared.engine.routing import state as execution
from shared.engine.routing.state import Execution
from shared.engine.scheduling import state as schedule
from shared.engine.scheduling.state import Schedule
from shared.events import model as ev
from shared.events.outcome import Result, failed
from shared.events.record import Lease, Record
from shared.events.run_index import RUN, is_iteration
from tests.unit.answers.tale import EXECUTION, Tale, done, entered, lease, retried

Entry = tuple[int, Record]
ROUTER_READS = ("router", "worker", "scheduler", "waiting", "control")
SCHEDULER_READS = ("scheduler", "router", "iteration", "waiting", "control")
ERROR = {"kind": "broken", "message": "no"}


class Disturbed(Tale):
    """`noise` are the sequences of what must not count."""

    def __init__(self) -> None:
        super().__init__()
        self.noise: set[int] = set()

    def late(self, time: float, held: Lease, *events: ev.Event, waiting: bool = False) -> "Disturbed":
        self.noise.add(len(self.entries) + 1)
        if waiting:
            self.at(time, "waiting", *events, lease=held)
        else:
            self.work(time, held, *events)
        return self

    def again(self, *back: int) -> "Disturbed":
        """The records so far back are in the log once more: their append got no answer in time."""
        for record in [self.entries[-each][1] for each in back]:
            self.noise.add(len(self.entries) + 1)
            self.entries.append((len(self.entries) + 1, record))
        return self

    @property
    def clean(self) -> list[Entry]:
        return [entry for entry in self.entries if entry[0] not in self.noise]


def plain_run() -> Disturbed:
    """w1 is lost in its second attempt and comes back; w2 ends the run; w3 is given it once more."""
    tale = Disturbed()
    tale.begin("work")
    w1, w2, w3 = (lease("work:1", 1, delivery=delivery) for delivery in (1, 2, 3))
    tale.work(2, w1, ev.StepStarted(), ev.TaskStarted("a"))
    tale.work(3, w1, retried("a")).work(3, w1, ev.TaskStarted("a", 2))
    tale.again(2, 3)
    tale.work(20, w2, ev.StepStarted(), ev.TaskStarted("a", 2))
    tale.late(21, w1, done("a", attempt=2, result=1), ev.TaskStarted("b"))
    tale.work(22, w2, done("a", attempt=2, result=2)).again(1)
    tale.late(22, w1, ev.StepFailed(ERROR))
    tale.work(23, w2, ev.TaskStarted("b")).again(1, 2, 5)
    tale.work(24, w2, done("b"), ev.StepDone(Result(2)))
    tale.again(1, 5)
    tale.late(25, w3, ev.StepStarted(), ev.TaskStarted("b"))
    tale.late(25, w1, ev.StepDone(Result(1)))
    tale.late(25, w2, done("b"))
    tale.end(26, "work:1")
    tale.late(27, w3, done("b"), ev.StepFailed(ERROR))
    return tale


def waiting_run() -> Disturbed:
    """The run waits; what led to the wait is there again, before and after its end."""
    tale = Disturbed()
    tale.begin("work")
    w1, w2 = (lease("work:1", queued) for queued in (1, 10))
    tale.work(2, w1, ev.StepStarted(), ev.TaskStarted("a"))
    tale.at(3, "waiting", ev.TaskWaiting("a", 1, "a/1", until="2027-01-15T08:00:08.000000Z"), lease=w1)
    tale.again(1, 2)
    tale.at(8, "scheduler", ev.TaskResumed("work:1", "a/1"))
    tale.again(4, 5)
    tale.work(11, w2, ev.StepStarted(), ev.TaskStarted("a"))
    tale.late(12, w1, ev.LeaseReleased("going"))
    tale.work(13, w2, done("a"), ev.LeaseReleased("going")).again(1, 3)
    return tale


def loop() -> Disturbed:
    """Of the two iterations the first is taken over; its zombie waits for what nobody should wait for."""
    tale = Disturbed()
    tale.begin("work", loop=True)
    tale.at(1, "scheduler", ev.LoopStarted("work:1", "work", 2, [1, 2], max_in_flight=2, parallel=True),
            ev.IterationStarted("work:1", 0, 2))
    w1, w2 = (lease("work:1", 1, 0, delivery) for delivery in (1, 2))
    other = lease("work:1", 2, 1)
    tale.work(2, w1, ev.StepStarted(), ev.TaskStarted("a")).work(2, other, ev.StepStarted(), ev.TaskStarted("a"))
    tale.again(1, 2)
    tale.work(20, w2, ev.StepStarted(), ev.TaskStarted("a"))
    tale.late(21, w1, done("a"), ev.IterationDone(Result(9)))
    tale.late(21, w1, ev.TaskWaiting("a", 1, "a/1", until="2027-01-15T08:00:08.000000Z"), waiting=True)
    tale.work(22, w2, done("a"), ev.IterationDone(Result(1))).again(1)
    tale.late(22, w1, ev.IterationFailed(ERROR))
    tale.work(23, other, retried("a"), ev.TaskStarted("a", 2)).again(1)
    tale.work(24, other, done("a", attempt=2), ev.IterationFailed(ERROR)).again(1, 3)
    tale.at(25, "scheduler", ev.LoopDone("work:1", "work", Result([1]), 2, 1))
    tale.again(2, 4)
    tale.end(26, "work:1").late(27, w1, ev.IterationDone(Result(9)))
    return tale


def local_loop() -> Disturbed:
    """Whoever claims the loop as a whole has its iterations, also those it has not begun again yet."""
    tale = Disturbed()
    tale.begin("work", loop=True)
    tale.at(1, "scheduler", ev.LoopStarted("work:1", "work", 2, [1, 2], max_in_flight=2, local=True),
            ev.IterationStarted("work:1", 0, 2))
    def whole(time: float, held: Lease, *events: ev.Event) -> None:
        tale.at(time, "iteration", *events, lease=held)

    w1, w2 = (lease("work:1", 1, delivery=delivery) for delivery in (1, 2))
    first, second = (replace(w1, index=index) for index in (0, 1))
    whole(2, w1, ev.StepStarted())
    tale.work(3, first, ev.StepStarted(), ev.TaskStarted("a"), done("a"), ev.IterationDone(Result(1)))
    tale.work(4, second, ev.StepStarted(), ev.TaskStarted("a")).again(1, 2, 3)
    whole(20, w2, ev.StepStarted())
    tale.late(21, second, done("a"), ev.IterationDone(Result(9)))
    tale.work(22, replace(w2, index=1), ev.StepStarted(), ev.TaskStarted("a"), retried("a"))
    tale.late(23, second, ev.IterationFailed(ERROR)).again(2)
    tale.work(24, replace(w2, index=1), done("a", attempt=2), ev.IterationDone(Result(2))).again(1, 3)
    tale.at(25, "scheduler", ev.LoopDone("work:1", "work", Result([1, 2]), 2))
    tale.again(2)
    tale.end(26, "work:1")
    return tale


def cancelled_run() -> Disturbed:
    """What a worker says after the router has cancelled the run changes nothing of how it ended."""
    tale = Disturbed()
    tale.begin("work")
    w1 = lease("work:1", 1)
    tale.work(2, w1, ev.StepStarted(), ev.TaskStarted("a"))
    tale.at(3, "router", ev.StepCancelled("work:1", "work", "default", "late"))
    return tale


HISTORIES = [plain_run, waiting_run, loop, local_loop]


# -- to each reader the noise is not there -------------------------------------------------


def routed(entries: Sequence[Entry]) -> Execution:
    state = Execution(EXECUTION)
    for seq, record in entries:
        if record.writer in ROUTER_READS:
            state = execution.evolve(state, record, seq)
    return replace(state, as_of=0)


def scheduled(entries: Sequence[Entry]) -> Schedule:
    read = [entry for entry in entries if entry[1].writer in SCHEDULER_READS]
    return replace(schedule.evolve(Schedule(EXECUTION), read), as_of=0)


def projected(entries: Sequence[Entry]) -> Rows:
    rows = Rows()
    for seq, record in entries:
        readmodel.fold(rows, Message(0, seq, datetime.fromisoformat(record.ts), record))
    rows.records, rows.repeated = [], set()  # what does not count is there as well
    for row in rows.executions.values():
        row.seq, row.updated_at = 0, row.started_at
    return rows


def summed(entries: Sequence[Entry], kind: type[Summary] = Summary) -> Summary:
    found = kind(EXECUTION)
    for _, record in entries:
        found.apply(record)
    return found


def described(entries: Sequence[Entry]) -> dict[str, Any]:
    found = summed(entries, Portrait)
    assert isinstance(found, Portrait)
    return {**shown(found), "records": 0, "events": 0}


def seen(entries: Sequence[Entry]) -> View:
    return viewed(EXECUTION, entries, None)


def asked_why(entries: Sequence[Entry]) -> object:
    return seen(entries).holds


def summarised(entries: Sequence[Entry]) -> object:
    found = summed(entries)
    return found.as_dict(), to_builtins(found.steps), found.children


def traced(entries: Sequence[Entry]) -> object:
    return {key: (held.epoch, held.n, held.end, held.kept) for key, held in History(EXECUTION, entries).held.items()}


def checked(entries: Sequence[Entry]) -> object:
    return {key: (held.epoch, held.n, held.end, held.kept) for key, held in accepted(entries).items()}


def taken_over(entries: Sequence[Entry]) -> object:
    """By the next worker."""
    records = [record for _, record in entries]
    if not any(isinstance(event, ev.LoopStarted) for record in records for event in record.events):
        return pipeline_history.accept(records, "work:1", RUN)
    return [pipeline_history.accept(records, "work:1", index) for index in (0, 1)], accept_loop(records, "work:1")


def resulted(entries: Sequence[Entry]) -> object:
    return values._step([record for _, record in entries], "work")


READERS: list[Callable[[Sequence[Entry]], object]] = [
    routed, scheduled, projected, summarised, described, asked_why, traced, checked, taken_over, resulted,
]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("told", HISTORIES)
def test_what_does_not_count_changes_nothing(
    told: Callable[[], Disturbed], reader: Callable[[Sequence[Entry]], object]
) -> None:
    tale = told()
    for seq in range(1, len(tale.entries) + 1):
        until = [entry for entry in tale.entries if entry[0] <= seq]
        clean = [entry for entry in tale.clean if entry[0] <= seq]
        assert reader(until) == reader(clean), f"after record {seq}: {tale.entries[seq - 1][1]}"


# -- what they say of the same thing -------------------------------------------------------


def attempts(rows: Rows) -> dict[str, int]:
    """Those that ended, over all leases."""
    ended = [task.task for task in rows.tasks.values() if task.status in ("done", "failed", "retried")]
    return {task: ended.count(task) for task in sorted(set(ended))}


def test_readers_agree_on_a_run_that_was_taken_over() -> None:
    entries = plain_run().entries
    routing = routed([entry for entry in entries if not _is_routed(entry[1])])
    rows, text, step = projected(entries), described(entries)["runs"][0], summed(entries).steps["work"]
    hold = seen(entries).holds["work:1", RUN]
    row = rows.runs[EXECUTION, "work:1", RUN]
    epoch = lease("work:1", 1, delivery=2).epoch
    assert routing.runs["work:1"].epoch == hold.epoch == (row.epoch_ns, row.epoch_try) == epoch
    assert row.worker == text["worker"] == step.worker == hold.worker == "w2"
    assert row.claims == text["leases"] == hold.holds == 2
    assert attempts(rows) == {task["task"]: task["attempts"] for task in text["tasks"]} == {"a": 2, "b": 1}
    assert (hold.task, hold.attempt) == ("b", 1)
    assert row.status == text["status"] == step.status == "done"
    end = routing.runs["work:1"].end
    assert end is not None
    assert end.result == resulted(entries) == Result(2)
    assert row.result == "2"
    assert text["held"][-1]["ended"] == "done"


def _is_routed(record: Record) -> bool:
    return any(isinstance(event, ev.NextSelected) for event in record.events)


@pytest.mark.parametrize("told", [loop, local_loop])
def test_readers_agree_on_the_iterations_of_a_loop(told: Callable[[], Disturbed]) -> None:
    entries = told().entries
    before = [entry for entry in entries if not any(isinstance(each, ev.LoopDone) for each in entry[1].events)]
    loop_ = scheduled([entry for entry in before if not _is_routed(entry[1])]).loops["work:1"]
    rows, text, step = projected(entries), described(entries)["runs"][0], summed(entries).steps["work"]
    assert step.loop is not None
    ended = rows.loops[EXECUTION, "work:1"]
    assert (ended.done, ended.failed) == (step.loop.done, step.loop.failed)
    assert (step.loop.done, step.loop.failed) == (text["loop"]["done"], text["loop"]["failed"])
    assert (loop_.results.size, loop_.failures.size) == (step.loop.done, step.loop.failed)
    holds = {index: hold for (_, index), hold in seen(entries).holds.items() if is_iteration(index)}
    iterations = {index: run for (_, _, index), run in rows.runs.items() if is_iteration(index)}
    assert {index: hold.worker for index, hold in holds.items()} == {
        index: run.worker for index, run in iterations.items()}
    assert sum(attempts(rows).values()) == sum(task["attempts"] for task in text["tasks"])
    assert text["leases"] == sum(hold.holds for hold in seen(entries).holds.values())


@pytest.mark.parametrize("word", [
    ev.TaskWaiting("a", 1, "a/1", until="2027-01-15T08:00:08.000000Z"), done("a"), ev.StepDone(Result(3)),
    ev.StepFailed(failed("broken", "no").error or {}),
])
def test_a_cancelled_run_stays_cancelled(word: ev.Event) -> None:
    tale = cancelled_run()
    before = described(tale.entries), summarised(tale.entries), projected(tale.entries)
    tale.at(4, "waiting" if isinstance(word, ev.TaskWaiting) else "worker", word, lease=lease("work:1", 1))
    assert (described(tale.entries), summarised(tale.entries), projected(tale.entries)) == before


def test_a_zombie_does_not_let_go_of_an_iteration_of_a_stopped_loop() -> None:
    tale = Disturbed()
    tale.begin("work", loop=True)
    tale.at(1, "scheduler", ev.LoopStarted("work:1", "work", 2, [1, 2], max_in_flight=2, parallel=True),
            ev.IterationStarted("work:1", 0, 2))
    w1, w2 = (lease("work:1", 1, 0, delivery) for delivery in (1, 2))
    tale.work(2, w1, ev.StepStarted()).work(3, w2, ev.StepStarted())
    tale.at(4, "router", ev.StepCancelled("work:1", "work", "default", "late"))
    wait = ev.TaskWaiting("a", 1, "a/1", until="2027-01-15T08:00:08.000000Z")
    tale.late(5, w1, wait, waiting=True)
    assert 0 in scheduled(tale.entries).stopping["work:1"].live
    tale.at(6, "waiting", wait, lease=w2)
    assert 0 not in scheduled(tale.entries).stopping["work:1"].live


def test_a_run_that_is_entered_again_is_another_one() -> None:
    """What the first one's worker still says is nothing to the second."""
    tale = Disturbed()
    tale.begin("work")
    w1 = lease("work:1", 1)
    tale.work(2, w1, ev.StepStarted(), ev.TaskStarted("a"), done("a"), ev.StepDone())
    tale.at(3, "router", ev.NextSelected("work:1", "work", "step.done", ("work",)), ev.TokenCreated("t2", "work"),
            entered("work", "t2", run=2))
    tale.again(2)
    assert summarised(tale.entries) == summarised(tale.clean)
    assert described(tale.entries) == described(tale.clean)
