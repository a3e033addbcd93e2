"""Waits: tasks that go on without a worker, until a child has ended, a signal is there or a time has come.

1. `task.waiting` ends a worker's lease. Its child is asked for at once, under an id that follows from
   the wait, so asking twice starts one.
2. The wait is over when the child has ended; when its time has come: a pause is then done, a child is
   late; and at once for a child that nobody waits for. `task.resumed` says so, and the run goes to its
   pool again.
3. A signal ends the first wait that asks for its name, also one that begins later. A payload that does not fit
   the wait's schema is rejected, and the wait goes on.
4. A report of a lower epoch changes nothing; a task that was begun anew comes back to the same wait,
   with the answer it may have by then.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from shared.dsl.templates import json_schema
from shared.engine.leases.fence import is_outranked
from shared.events import model as ev
from shared.events.fields import PRIORITY
from shared.events.outcome import Outcome, failed, ok
from shared.events.record import Epoch, Lease, Record
from shared.events.request import Control, Request
from shared.events.run_index import is_iteration, iteration_part
from shared.events.stamp import seconds

if TYPE_CHECKING:
    from shared.engine.scheduling.state import Schedule


MAX_SIGNALS = 1000  # that nobody has waited for yet; more are in the log and nowhere else
MAX_MISFIT = 500


class Wait(Struct, frozen=True):
    """`over`: the run has been sent on; the wait is kept for the reports that may still come."""

    run_id: str
    index: int
    epoch: Epoch
    event: ev.TaskWaiting
    answer: ev.ChildEnded | None = None
    over: bool = False


def place(run_id: str, index: int) -> str:
    return run_id + iteration_part(index)


def fold_report(state: "Schedule", record: Record, lease: Lease) -> None:
    """A worker's word about a task that waits."""
    if lease.run_id in state.stopping:
        if not state.stopping[lease.run_id].outranks(lease):
            state.stopping[lease.run_id].live.pop(lease.index, None)
        return
    event = record.events[-1]
    at = place(lease.run_id, lease.index)
    known = state.waits.get(at)
    if not isinstance(event, ev.TaskWaiting) or not _is_live(state, lease):
        return
    if known is not None and is_outranked(lease, known.epoch):
        return
    if known is not None and known.event.wait == event.wait:
        state.waits[at] = replace(known, epoch=lease.epoch)
    else:
        state.waits[at] = Wait(lease.run_id, lease.index, lease.epoch, event)


def _is_live(state: "Schedule", lease: Lease) -> bool:
    if not is_iteration(lease.index):
        return lease.run_id in state.runs
    loop = state.loops.get(lease.run_id)
    if loop is None or lease.index not in loop.live or loop.outranks(lease):
        return False
    loop.live[lease.index] = lease.epoch
    return True


def fold_control(state: "Schedule", record: Record) -> None:
    for event in record.events:
        if isinstance(event, ev.SignalReceived) and record.source not in state.heard:
            state.heard = (*state.heard, record.source)[-MAX_SIGNALS:]
            if len(state.signals) < MAX_SIGNALS:
                state.signals[record.source] = event
        if isinstance(event, ev.ChildEnded):
            state.orphans.pop(event.child, None)
            if event.run_id in state.stopping:
                state.stopping[event.run_id].live.pop(event.index, None)
            at = place(event.run_id, event.index)
            known = state.waits.get(at)
            if known is not None and known.answer is None and _asks_for(known, event):
                state.waits[at] = replace(known, answer=event)


def _asks_for(wait: Wait, ended: ev.ChildEnded) -> bool:
    child = wait.event.child
    return wait.event.wait == ended.wait and child is not None and child.execution_id == ended.child


def orphan(state: "Schedule", run_id: str, reason: str) -> None:
    """The run is over, and its children are not: nobody waits for them any more. An iteration that only
    pauses has nothing left to stop."""
    for wait in state.waits.values():
        if wait.run_id == run_id and not wait.over:
            _orphan(state, wait, reason)
            if wait.event.child is None and run_id in state.stopping:
                state.stopping[run_id].live.pop(wait.index, None)


def _orphan(state: "Schedule", wait: Wait, reason: str) -> None:
    child = wait.event.child
    if child is not None and not child.detached and wait.answer is None:
        state.orphans[child.execution_id] = reason


def forget(state: "Schedule", run_id: str) -> None:
    """The run is over, and its iterations with it."""
    gone = [at for at, wait in state.waits.items() if wait.run_id == run_id]
    for at in gone:
        del state.waits[at]


def is_waiting(state: "Schedule", run_id: str, index: int = -1) -> bool:
    wait = state.waits.get(place(run_id, index))
    return wait is not None and not wait.over


def cancels(state: "Schedule") -> Iterator[Control]:
    for child, reason in state.orphans.items():
        yield Control(child, f"nobody waits for it any more: {reason}", f"execution {state.execution_id}")


def decide(state: "Schedule", now: float) -> Iterator[ev.TaskResumed | ev.SignalRejected]:
    taken: set[str] = set()
    for wait in state.waits.values():
        if wait.over:
            continue
        resumed = None
        for source, signal in state.signals.items():
            if resumed is None and signal.name == wait.event.signal and source not in taken:
                taken.add(source)
                wrong = misfit(signal.payload, wait.event.schema)
                if wrong:
                    yield ev.SignalRejected(source, signal.name, wrong)
                else:
                    outcome = ok(signal.payload, meta={"by": signal.by})
                    resumed = ev.TaskResumed(wait.run_id, wait.event.wait, wait.index, outcome, source)
        if resumed is None and _is_over(wait, now):
            resumed = ev.TaskResumed(wait.run_id, wait.event.wait, wait.index, _outcome(wait))
        if resumed is not None:
            yield resumed


def misfit(payload: Any, schema: dict[str, Any]) -> str:
    """What about the payload is not as the schema asks; empty when all is."""
    return json_schema.misfit(payload, schema, MAX_MISFIT) if schema else ""


def resumed(state: "Schedule", event: ev.TaskResumed) -> None:
    """In place, on a draft."""
    at = place(event.run_id, event.index)
    state.signals.pop(event.signal, None)
    if at in state.waits:
        _orphan(state, state.waits[at], "its time is over")
        state.waits[at] = replace(state.waits[at], over=True)


def due(state: "Schedule") -> float | None:
    """When the next wait is over by itself."""
    times = [seconds(wait.event.until) for wait in state.waits.values() if not wait.over and wait.event.until]
    return min(times, default=None)


def children(state: "Schedule") -> Iterator[Request]:
    """The executions that must have been asked for."""
    for wait in state.waits.values():
        if not wait.over and wait.answer is None and (request := asked(state, wait)) is not None:
            yield request


def asked(state: "Schedule", wait: Wait) -> Request | None:
    child = wait.event.child
    if child is None:
        return None
    parent = ev.Parent(
        execution_id=state.execution_id, run_id=wait.run_id, wait=wait.event.wait, index=wait.index,
        returns=child.returns, iter=child.iter, depth=state.depth + 1, detached=child.detached, root=state.root,
    )
    priority = state.priority if state.priority != PRIORITY else None
    return Request(child.path, child.version, child.payload, child.execution_id, parent, priority)


def _is_over(wait: Wait, now: float) -> bool:
    child, until = wait.event.child, wait.event.until
    if wait.answer is not None or (child is not None and child.detached):
        return True
    return bool(until) and now >= seconds(until)


def _outcome(wait: Wait) -> Outcome | None:
    """What the task answers with; None: it has only paused, the call is still to be made."""
    child, answer = wait.event.child, wait.answer
    if wait.event.signal:
        return failed("timeout", f"no signal {wait.event.signal!r} in time", retryable=True)
    if child is None:
        return None if wait.event.pause else ok({"until": wait.event.until})
    about = {"execution_id": child.execution_id, "path": child.path}
    if answer is None and child.detached:
        return ok({**about, "status": "started"})
    if answer is None:
        return failed("timeout", f"{_name(child)} is not over in time", retryable=True, details=about)
    if answer.status == "completed":
        result = answer.result
        return Outcome("ok", result.value, result.shape, result.ref, meta=about)
    message = f"{_name(child)} {'failed' if answer.status == 'failed' else 'was cancelled'}: {_message(answer.error)}"
    return failed("playbook", message, details={**about, "error": answer.error})


def _name(child: ev.Child) -> str:
    return f"playbook {child.path!r} (execution {child.execution_id})"


def _message(error: dict[str, Any] | None) -> str:
    return str((error or {}).get("message", "no reason given"))
