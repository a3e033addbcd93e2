"""The events of an execution as FX §9, FS §12 and DSL2 §9 describe them.

1. Every event of the log is there, in its order: `event_type` is its name in FS and `name` its name in FX, ours where
   they have none. Beside our envelope there are `timestamp`, `entity` and `data`, which are `ts`, `entity_type` and
   `payload`.
2. What those documents call an event of its own, and the log has as a part of another one, follows from that one
   (`SAID` in `shared/events/aliases.py`). Its id is that of its cause with its name behind it: the same, whoever asks.
3. Only the playbook knows which tasks are sinks and rules of a case, and which jumps make another call by a retry
   policy. Without its plan they are tools. The other tasks that lowering generates are no tools of the author's: they
   keep our names.
4. A step is started by the server, once, and finished once: by the first end that counts (`engine/leases/fence.py`).
   A worker that takes a run claims it. Reports that do not count keep our names where they speak of an end.
5. A record that its worker wrote twice is one.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from shared.dsl.model.plan import Plan, Step, Task
from shared.engine.leases.fence import Fence
from shared.events import model as ev
from shared.events.aliases import CLAIMED, FORMAL, SAID, Formal
from shared.events.classes import ENDS_RUN
from shared.events.record import Entry, Record, envelopes, event_id
from shared.events.run_index import is_iteration, part_of

Envelope = dict[str, Any]
Call = ev.TaskStarted | ev.TaskDone | ev.TaskRetried
_ENTITY = {"task.retried": "tool"}  # its own is the retry; what it is called by here is the end of a call


class FormalView:
    """Hand it the records in log order. `plan_of` gives the plan of a name, None if there is none any more."""

    def __init__(self, plan_of: Callable[[str], Plan | None]) -> None:
        self._plan_of = plan_of
        self._plan: Plan | None = None
        self._fence = Fence()
        self._seen: set[str] = set()
        self._runs: dict[str, str] = {}  # that have not ended → their step
        self._loops: dict[str, bool] = {}  # that have not ended → run by one worker
        self._begun: set[tuple[str, int]] = set()  # iterations of those
        self._again: set[tuple[str, int, str]] = set()  # calls that a retry policy has asked for

    def of(self, record: Record) -> Iterator[Envelope]:
        """What the next record says."""
        counts, first = self._fence.takes(record), event_id(record, record.n)
        if first in self._seen:
            return
        self._seen.add(first)
        for event, envelope in zip(record.events, envelopes(record), strict=True):
            for said in self._said(record, event, envelope, counts=counts):
                yield {**said, "timestamp": said["ts"], "entity": said["entity_type"], "data": said["payload"]}
            if record.lease is None and isinstance(event, ENDS_RUN):
                self._fence.close(event.run_id)

    def _said(self, record: Record, event: ev.Event, own: Envelope, *, counts: bool) -> Iterator[Envelope]:
        match event:
            case ev.RequestEvaluated(digest=digest):
                self._plan = self._plan_of(digest) if digest else None
                yield named(own)
            case ev.PlaybookPaused():
                yield named(own, status="paused")
            case ev.TokenCreated():
                yield from _token(event, own)
            case ev.StepScheduled():
                self._runs[event.run_id] = event.step
                yield from _scheduled(event, own)
            case ev.StepStarted():
                yield named(own, Formal(CLAIMED, CLAIMED))
                yield from self._claimed(record, own)
            case ev.TaskStarted() | ev.TaskDone() | ev.TaskRetried():
                yield from self._task(record, event, own, counts=counts)
            case ev.LoopStarted(run_id=run_id, local=local):
                self._loops[run_id] = local
                yield named(own)
            case ev.IterationStarted(run_id=run_id, first=first, count=count):
                if not self._loops.get(run_id):  # the worker of a local loop says when it begins one
                    for index in range(first, first + count):
                        yield _iteration(own, run_id, index, event_id=f"{own['event_id']}/{index}",
                                         payload={"run_id": run_id, "index": index})
            case ev.IterationDone() | ev.IterationFailed() if counts:
                run_id, index = _of_iteration(record, event)
                yield _iteration(own, run_id, index, payload={**own["payload"], "index": index})
            case ev.StepDone() | ev.StepFailed() | ev.StepCancelled() | ev.LoopDone() | ev.NextSelected():
                yield from self._ended(event, own, counts=counts)
            case ev.IterationDone() | ev.IterationFailed():
                yield ours(own)
            case _:
                yield named(own)

    def _claimed(self, record: Record, own: Envelope) -> Iterator[Envelope]:
        lease = record.lease
        assert lease is not None
        key = lease.run_id, lease.index
        if is_iteration(lease.index) and self._loops.get(lease.run_id) and key not in self._begun:
            self._begun.add(key)
            yield follows(own, "loop.iteration.started", entity_id=f"{lease.run_id}{part_of(lease.index)}",
                          payload={"run_id": lease.run_id, "index": lease.index})

    # -- ends --------------------------------------------------------------------------------

    def _ended(self, event: ev.Event, own: Envelope, *, counts: bool) -> Iterator[Envelope]:
        """The first end of a run that counts finishes its step, and before that its loop."""
        run_id = own["step_run_id"]
        step = self._runs.pop(run_id, None) if counts else None
        loop = self._loops.pop(run_id, None) if counts else None
        payload = {"step": step}
        match event:
            case ev.NextSelected():
                status = "error" if event.event == "step.failed" else "success"
                if loop is not None:
                    yield follows(own, "loop.finished", status=status, payload=payload)
                if step is not None:
                    yield follows(own, "step.finished", status=status, payload=payload)
                yield from self._routed(event, own)
            case _ if step is None:
                yield ours(own)
            case ev.LoopDone():
                yield named(own)
                yield follows(own, "step.finished", payload=payload)
            case _:
                if loop is not None:
                    yield follows(own, "loop.finished", payload=payload)
                yield named(own)

    def _routed(self, event: ev.NextSelected, own: Envelope) -> Iterator[Envelope]:
        step = self._step(event.step)
        if step is not None and step.case:
            yield follows(own, "case.started", status="in_progress", payload={"step": event.step, "event": event.event})
            yield follows(own, "case.evaluated")
        yield named(own)

    # -- tasks -------------------------------------------------------------------------------

    def _task(self, record: Record, event: Call, own: Envelope, *, counts: bool) -> Iterator[Envelope]:
        lease = record.lease
        assert lease is not None
        task = self._task_of(lease.step, event.task)
        if task is not None and _is_generated(task):
            yield ours(own)
            if isinstance(event, ev.TaskDone) and task.role == "sink.when":
                yield from _unstored(task, event, own)
            return
        yield _by_role(task, event, own)
        if isinstance(event, ev.TaskStarted):
            return
        key = lease.run_id, lease.index, event.task
        if event.attempt > 1 or key in self._again:
            yield follows(own, "retry.processed", status=_outcome(event))
        repeats = task is not None and isinstance(event, ev.TaskDone) and event.do == "jump" and event.to in task.again
        if counts:
            (self._again.add if repeats else self._again.discard)(key)
        if isinstance(event, ev.TaskRetried) or repeats:
            yield _tried_again(event, own)

    def _step(self, name: str) -> Step | None:
        return self._plan.steps.get(name) if self._plan is not None else None

    def _task_of(self, step: str, name: str) -> Task | None:
        found = self._step(step)
        return next((task for task in found.tasks if task.name == name), None) if found is not None else None


def formal(entries: Iterable[Entry], plan_of: Callable[[str], Plan | None]) -> Iterator[Envelope]:
    """Of a whole execution, each with the sequence of its record."""
    view = FormalView(plan_of)
    for seq, record in entries:
        for envelope in view.of(record):
            yield {"seq": seq, **envelope}


def digests(records: Iterable[Record]) -> list[str]:
    """The names of the plans that are asked for."""
    return [event.digest for record in records for event in record.events
            if isinstance(event, ev.RequestEvaluated) and event.digest]


# -- envelopes ---------------------------------------------------------------------------------


def named(own: Envelope, name: Formal | None = None, **changes: Any) -> Envelope:
    """The event itself under its formal names."""
    type_ = own["event_type"]
    name = name or FORMAL.get(type_, Formal())
    said = {**own, "entity_type": _ENTITY.get(type_, own["entity_type"]), **changes}
    fx = name.fx_error if said["status"] == "error" and name.fx_error else name.fx
    return {**said, "event_type": name.fs or type_, "name": fx or type_}


def ours(own: Envelope) -> Envelope:
    """The event under our name alone."""
    return {**own, "name": own["event_type"]}


def follows(own: Envelope, fs: str, **changes: Any) -> Envelope:
    """What follows from the event, which it is derived from."""
    row = SAID[fs]
    said = {**own, "event_id": f"{own['event_id']}/{fs}", "entity_type": row.entity, **changes}
    return {**said, "event_type": fs, "name": row.name.fx or fs}


def _token(event: ev.TokenCreated, own: Envelope) -> Iterator[Envelope]:
    yield named(own)
    yield follows(own, "token.enqueued")
    if event.parent_run_id:
        yield follows(own, "next.enqueued", status="success", step_run_id=event.parent_run_id,
                      entity_id=event.parent_run_id)


def _scheduled(event: ev.StepScheduled, own: Envelope) -> Iterator[Envelope]:
    for token in event.tokens:
        said = follows(own, "token.claimed", payload={"token_id": token, "step": event.step, "run_id": event.run_id})
        yield {**said, "event_id": f"{said['event_id']}/{token}", "status": "success"}
    yield named(own)
    yield follows(own, "step.started", payload={"run_id": event.run_id, "step": event.step, "args": event.args})


def _of_iteration(record: Record, event: ev.IterationDone | ev.IterationFailed) -> tuple[str, int]:
    if record.lease is not None:
        return record.lease.run_id, record.lease.index
    assert isinstance(event, ev.IterationFailed)
    return event.run_id, event.index


def _iteration(own: Envelope, run_id: str, index: int, **changes: Any) -> Envelope:
    return named(own, entity_id=f"{run_id}{part_of(index)}", **changes)


def _is_generated(task: Task) -> bool:
    """Only lowering made it, and it does nothing that the documents speak of."""
    return bool(task.title) and task.kind == "noop" and task.role not in ("sink", "case")


def _by_role(task: Task | None, event: Call, own: Envelope) -> Envelope:
    role = task.role if task is not None else ""
    started = isinstance(event, ev.TaskStarted)
    if not role:
        return named(own) if started else named(own, status=_outcome(event))
    fs = f"{role}.started" if started else "case.evaluated" if role == "case" else "sink.processed"
    status = own["status"] if started else _outcome(event)
    return {**follows(own, fs, status=status), "event_id": own["event_id"]}


def _outcome(event: Call) -> str:
    assert not isinstance(event, ev.TaskStarted)
    return "success" if event.outcome.status == "ok" else "error"


def _unstored(task: Task, event: ev.TaskDone, own: Envelope) -> Iterator[Envelope]:
    """The sink that its `when` did not let through, or whose `when` could not be evaluated."""
    assert task.rules
    store = task.rules[0].then.to
    if event.to == store:
        return
    at = own["task_run_id"].rpartition(f"/{task.name}/")[0] + f"/{store}/1"
    status = "skipped" if event.outcome.status == "ok" else "error"
    payload = {"task": store, "error": event.outcome.error} if status == "error" else {"task": store}
    yield follows(own, "sink.processed", status=status, entity_id=at, task_run_id=at, payload=payload)


def _tried_again(event: Call, own: Envelope) -> Envelope:
    """What begins then: the next attempt, or the first one of another call."""
    attempt, delay = (event.attempt + 1, {"delay": event.delay}) if isinstance(event, ev.TaskRetried) else (1, {})
    at = f"{own['task_run_id'].rpartition('/')[0]}/{attempt}"
    return follows(own, "retry.started", status="in_progress", entity_id=at, task_run_id=at,
                   payload={"task": event.task, "attempt": attempt, **delay})
