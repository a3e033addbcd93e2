"""Waits: tasks that are parked without a worker until a child has ended, a signal has come or a time is reached.

1. `task.waiting` is the last word of a worker's lease. A parent that kept its worker while its children ran could fill
   a pool with parents and stop the children for ever.
2. A wait has a name that follows from the run, the task and how many tasks ran before it; the id of its child follows
   from that name. So a child requested twice is one child, and a worker that begins the same attempt again comes to the
   same wait, the same child and the same answer.
3. A wait is over when its child has ended; when its time is reached (a pause is then done, a child is late); or at
   once, for a child that nobody waits for. `task.resumed` says so and carries the outcome. It is written once for a
   wait, and the run then goes to its pool again.
4. A signal ends the first wait that asks for its name, also one that begins later. A payload that does not match the
   wait's schema is rejected, and the wait continues. A signal is never used for two waits. How many signals there are,
   and how many of them one decision looks at, is bounded (`signals.py`); a wait is over in time all the same.
5. A report of a lower epoch changes nothing. A wait that is over is kept (`over`) until its run ends or waits for
   something else: a late report of the same wait must not begin it a second time.
6. A run of which a wait is reported that the plan does not have (`planned_waits.py`) fails, and nothing is requested.
7. When a run is over and its child is not, the child is an orphan: it is cancelled, unless it was started detached.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from shared.engine.leases.fence import is_outranked
from shared.engine.scheduling import signals
from shared.engine.scheduling.planned_waits import Asked, Plans, asked_for, refusal, step_of
from shared.events import model as ev
from shared.events.failure import PLAYBOOK, TIMEOUT, message_of
from shared.events.fields import PRIORITY
from shared.events.outcome import Outcome, failed, ok
from shared.events.record import Epoch, Lease, Record
from shared.events.request import BY_EXECUTION, Control, Request
from shared.events.run_index import is_iteration, iteration_part
from shared.events.stamp import seconds

if TYPE_CHECKING:
    from shared.engine.scheduling.state import Schedule


AT_ONCE = 1.0  # a time that has passed long since


class Wait(Struct, frozen=True):
    """`over`: the run was sent to its pool again; the wait is kept for reports that may still come."""

    run_id: str
    index: int
    epoch: Epoch
    event: ev.TaskWaiting
    answer: ev.ChildEnded | None = None
    over: bool = False


def run_key(run_id: str, index: int) -> str:
    """The key under which a run, or an iteration, waits and holds its place of a limit."""
    return run_id + iteration_part(index)


def fold_report(state: "Schedule", record: Record, lease: Lease) -> None:
    """A worker's report that a task waits."""
    if lease.run_id in state.stopping:
        if not state.stopping[lease.run_id].outranks(lease):
            state.stopping[lease.run_id].live.pop(lease.index, None)
        return
    event = record.events[-1]
    at = run_key(lease.run_id, lease.index)
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
        if isinstance(event, ev.SignalReceived):
            signals.keep(state, record.source, event)
        if isinstance(event, ev.ChildEnded):
            state.orphans.pop(event.child, None)
            if event.run_id in state.stopping:
                state.stopping[event.run_id].live.pop(event.index, None)
            at = run_key(event.run_id, event.index)
            known = state.waits.get(at)
            if known is not None and known.answer is None and _asks_for(known, event):
                state.waits[at] = replace(known, answer=event)


def _asks_for(wait: Wait, ended: ev.ChildEnded) -> bool:
    child = wait.event.child
    return wait.event.wait == ended.wait and child is not None and child.execution_id == ended.child


def orphan(state: "Schedule", run_id: str, reason: str) -> None:
    """The run is over and its children are not: nobody waits for them now. An iteration that only pauses has nothing
    left to stop; nor has one that was resumed and that no worker has begun since: the end of its wait may stand behind
    the cancel in the log, where it says nothing any more, and must not matter before it either."""
    for wait in state.waits.values():
        if wait.run_id != run_id:
            continue
        if not wait.over:
            _orphan(state, wait, reason)
        loop = state.stopping.get(run_id)
        if loop is not None and wait.event.child is None and (not wait.over or loop.live.get(wait.index) == wait.epoch):
            loop.live.pop(wait.index, None)


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
    wait = state.waits.get(run_key(run_id, index))
    return wait is not None and not wait.over


def cancels(state: "Schedule") -> Iterator[Control]:
    for child, reason in state.orphans.items():
        yield Control(child, f"nobody waits for it any more: {reason}", f"{BY_EXECUTION}{state.execution_id}")


def decide(
    state: "Schedule", now: float, rule: signals.Rule = signals.TODAY
) -> Iterator[ev.TaskResumed | ev.SignalRejected]:
    signal_round = signals.Round(state, rule)
    for wait in state.waits.values():
        if wait.over:
            continue
        resumed = None
        for source, signal, wrong in signal_round.of(wait.event.signal, wait.event.schema):
            if not wrong:
                outcome = ok(signal.payload, meta={"by": signal.by})
                resumed = ev.TaskResumed(wait.run_id, wait.event.wait, wait.index, outcome, source)
                break
            yield ev.SignalRejected(source, signal.name, wrong)
        if resumed is None and _is_over(wait, now):
            resumed = ev.TaskResumed(wait.run_id, wait.event.wait, wait.index, _outcome(wait))
        if resumed is not None:
            yield resumed


def unplanned_runs(plans: Plans, state: "Schedule") -> dict[str, str]:
    """Runs that wait as the plan does not say, and how."""
    found: dict[str, str] = {}
    alike: set[tuple[str, Asked]] = set()  # thousands of iterations may wait in the same way
    for wait in state.waits.values():
        if wait.over or (way := (wait.run_id, asked_for(wait.event))) in alike:
            continue
        alike.add(way)
        if wrong := unplanned(plans, state, wait.run_id, wait.event):
            found.setdefault(wait.run_id, wrong)
    return found


def unplanned(plans: Plans, state: "Schedule", run_id: str, event: ev.TaskWaiting) -> str:
    """Why the plan has no such wait; empty when it has, or the run is over."""
    step = step_of(plans, state, run_id)
    return "" if step is None else refusal(step, event)


def resumed(state: "Schedule", event: ev.TaskResumed) -> None:
    """In place, on a draft."""
    at = run_key(event.run_id, event.index)
    signals.forget(state, event.signal)
    if at in state.waits:
        _orphan(state, state.waits[at], "its time is over")
        state.waits[at] = replace(state.waits[at], over=True)


def due(state: "Schedule") -> float | None:
    """When the next wait is over by time alone, or when signals are looked at that a decision has left."""
    if signals.is_asked_for(state):
        return AT_ONCE
    times = [seconds(wait.event.until) for wait in state.waits.values() if not wait.over and wait.event.until]
    return min(times, default=None)


def children(plans: Plans, state: "Schedule") -> Iterator[Request]:
    """Requests for the children that must have been requested by now."""
    for wait in state.waits.values():
        if not wait.over and wait.answer is None and (request := asked(plans, state, wait)) is not None:
            yield request


def asked(plans: Plans, state: "Schedule", wait: Wait) -> Request | None:
    child = wait.event.child
    if child is None or unplanned(plans, state, wait.run_id, wait.event):
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
    """The outcome of the task; None: it was only a pause, and the call is still to be made."""
    child, answer = wait.event.child, wait.answer
    if wait.event.signal:
        return failed(TIMEOUT, f"no signal {wait.event.signal!r} in time", retryable=True)
    if child is None:
        return None if wait.event.pause else ok({"until": wait.event.until})
    about = {"execution_id": child.execution_id, "path": child.path}
    if answer is None and child.detached:
        return ok({**about, "status": "started"})
    if answer is None:
        return failed(TIMEOUT, f"{_name(child)} is not over in time", retryable=True, details=about)
    if answer.status == "completed":
        result = answer.result
        return Outcome("ok", result.value, result.shape, result.ref, meta=about)
    end = "failed" if answer.status == "failed" else "was cancelled"
    message = f"{_name(child)} {end}: {message_of(answer.error, 'no reason given')}"
    return failed(PLAYBOOK, message, details={**about, "error": answer.error})


def _name(child: ev.Child) -> str:
    return f"playbook {child.path!r} (execution {child.execution_id})"
