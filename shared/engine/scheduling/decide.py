"""The scheduling decider, and the commands that follow from the log. The rules of the room are in `core.py`.

1. Time comes first, also while the execution is paused or waits for its own place: a deadline passes whatever people
   want. A run over its deadline fails here, whether a worker has it or not. A worker that has it reports that itself,
   with more to say, so it gets LATE_S to do so; should both write, the first end in the log counts. So does a run that
   waits as the plan does not say (`planned_waits.py`): it is nobody's wait.
2. Then the loops that were cancelled, once nothing of them runs, limits whose key cannot be rendered, and signals that
   are too many to be kept.
3. Then, unless paused or waiting for a place, waits and loops. Each event is applied to a draft before the next is
   decided, so the events of one record never contradict each other (two iterations for one free part of the window).
4. A plain run needs no decision. Most reports of a wide loop need none either: `_is_quiet` sees that without a copy of
   the state.
5. `outstanding` derives every command that should be in the queue or with a worker. It must name each run that is due:
   a run it leaves out is lost with the queue.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from shared.dsl.model.plan import EVERYTHING, Plan, Step
from shared.dsl.templates.budget import one_decision
from shared.engine.scheduling import cursor_rows, limits, signals
from shared.engine.scheduling import loops as scheduling_loops
from shared.engine.scheduling import waits as waiting
from shared.engine.scheduling.nesting import iter_at
from shared.engine.scheduling.state import Dispatch, Loop, Schedule, apply, draft
from shared.engine.values import time_limits
from shared.engine.values.scope import narrow
from shared.engine.values.stored_values import MAX_INLINE_BYTES, Values, value_of
from shared.events import model as ev
from shared.events.command import Command, Local
from shared.events.failure import INTERNAL, TIMEOUT, Failure
from shared.events.outcome import Ref
from shared.events.run_index import FIRST_FRAME, RUN, frame_of, is_iteration, of_frame
from shared.events.stamp import seconds

LATE_S = 2.0  # after the deadline: a worker that has the run reports the timeout itself within this time
NO_VALUES: Values = {}
Plans = Callable[[str], Plan]


def decide(
    plans: Plans, state: Schedule, now: float, values: Values = NO_VALUES, rule: signals.Rule = signals.TODAY
) -> list[ev.Event]:
    """Everything that follows for the loops and waits of one execution, by the rule for its signals."""
    if state.finished or not (state.stopping or _is_of_note(state)):
        return []
    return _decide(plans, state, now, values, rule)


def _is_of_note(state: Schedule) -> bool:
    """There is more than plain runs without a deadline or a limit, of which nothing is decided. Most are such runs."""
    if state.loops or state.waits or ((state.excess or state.signal_bytes) and signals.is_over(state)):
        return True
    for dispatch in state.runs.values():  # noqa: SIM110 - a generator costs more than a look at the one run there is
        if dispatch.event.deadline or dispatch.event.limited:
            return True
    return False


@one_decision
def _decide(plans: Plans, state: Schedule, now: float, values: Values, rule: signals.Rule) -> list[ev.Event]:
    failed = [*_late(plans, state, now)]
    gone = {event.run_id for event in failed}
    if state.waits:
        failed += [event for event in _unplanned(plans, state) if event.run_id not in gone]
        gone = {event.run_id for event in failed}
    events: list[ev.Event] = [*failed, *_stopped(state)]
    events += [event for event in limits.unusable(plans, state, values) if event.run_id not in gone]
    if rule.refuses:
        events += signals.refusals(state)
    if state.paused or limits.is_closed(state) or not (state.loops or state.waits):
        return events
    if not events and not state.waits and _is_quiet(plans, state):
        return []
    work = draft(state)
    for event in events:
        apply(work, event)
    for resumed in list(waiting.decide(work, now, rule)):
        events.append(resumed)
        apply(work, resumed)
    for run_id in list(work.loops):
        loop = work.loops[run_id]
        for event in scheduling_loops.decide(_step(plans, loop), state.execution_id, loop, now, values):
            events.append(event)
            apply(work, event)
    return events


def _is_quiet(plans: Plans, state: Schedule) -> bool:
    return all(scheduling_loops.is_quiet(_step(plans, loop), loop) for loop in state.loops.values())


def _step(plans: Plans, loop: Loop) -> Step:
    return plans(loop.event.digest).steps[loop.event.step]


def _late(plans: Plans, state: Schedule, now: float) -> Iterable[ev.StepFailed]:
    """Runs past their deadline that no worker has ended."""
    for event, deadline in deadlines(state):
        if now >= seconds(deadline) + LATE_S:
            failure = Failure(TIMEOUT, time_limits.over(*_due_by(plans, event, deadline)), retryable=False)
            yield ev.StepFailed(failure.error(), (), event.run_id, event.step, event.pool)


def _due_by(plans: Plans, event: ev.StepScheduled, deadline: str) -> tuple[str, Step | None]:
    """The key that the deadline comes from: of a loop it may be `timeout_s`."""
    if deadline == event.deadline:
        return event.due_by, None
    plan = plans(event.digest)
    return (time_limits.TIMEOUT, plan.steps[event.step]) if plan.edition > 3 else ("", None)


def _unplanned(plans: Plans, state: Schedule) -> Iterable[ev.StepFailed]:
    """Runs that wait as the plan does not say."""
    for run_id, wrong in waiting.unplanned_runs(plans, state).items():
        event = (state.runs.get(run_id) or state.loops[run_id]).event
        failure = Failure(INTERNAL, f"a worker reported a wait that the playbook does not have: {wrong}", False)
        yield ev.StepFailed(failure.error(), (), run_id, event.step, event.pool)


def _stopped(state: Schedule) -> Iterable[ev.StepCancelled]:
    """Cancelled loops of which nothing runs now. An iteration that no worker has begun never will."""
    for run_id, loop in state.stopping.items():
        if not loop.is_at_work:
            yield ev.StepCancelled(run_id, loop.event.step, "its iterations have stopped")


def deadlines(state: Schedule) -> Iterable[tuple[ev.StepScheduled, str]]:
    for dispatch in state.runs.values():
        if dispatch.event.deadline:
            yield dispatch.event, dispatch.event.deadline
    for loop in state.loops.values():
        deadline = loop.event.deadline if loop.started is None else loop.started.deadline
        if deadline:
            yield loop.event, deadline


def due(state: Schedule) -> float | None:
    """When something follows from the state by time alone."""
    if state.finished or not _is_of_note(state):
        return None
    if signals.is_over(state):
        return waiting.AT_ONCE
    times = [seconds(deadline) + LATE_S for _, deadline in deadlines(state)]
    if state.waits and not (state.paused or limits.is_closed(state)) and (wait := waiting.due(state)) is not None:
        times.append(wait)
    return min(times, default=None)


# -- commands --------------------------------------------------------------------------------


def run_command(state: Schedule, dispatch: Dispatch, *, fresh: bool, since: int = 0, at: float = 0.0) -> Command:
    """A fresh command, here and below, carries the time `at` of the record that it follows from: it is believed for a
    short while only (`is_fresh`)."""
    event = dispatch.event
    return Command(
        execution_id=state.execution_id, run_id=event.run_id, step=event.step, digest=event.digest, pool=event.pool,
        cause=dispatch.cause, args=event.args, scope=event.scope, scope_ref=event.scope_ref, deadline=event.deadline,
        fresh=fresh, since=since, priority=state.priority, root=state.root, due_by=event.due_by, at=at,
    )


def loop_commands(
    step: Step, state: Schedule, loop: Loop, indexes: Iterable[int], values: Values, *, fresh: bool, since: int = 0,
    at: float = 0.0,
) -> list[Command]:
    """One command per iteration; each carries its element, and of scope and ctx writes what it may read."""
    event, started = loop.event, loop.started
    assert started is not None
    assert step.loop is not None
    items = scheduling_loops.elements_of(loop, values) if loop.claims is None else []
    scope, ref = _scope(step, event, values)
    ctx = tuple(patch for patch in loop.patches if reads(step, patch))
    commands, due_by = [], _loop_due_by(loop)
    for index in indexes:
        if loop.claims is not None:
            item, within = None, cursor_rows.iteration(loop.claims, step.loop.iterator, index, values)
        elif step.loop.inner:
            item, within = None, iter_at(step.loop.levels, items, index)
        else:
            item, within = items[index], {}
        commands.append(Command(
            execution_id=state.execution_id, run_id=event.run_id, step=event.step, digest=event.digest,
            pool=event.pool, cause=loop.sent.get(index, loop.cause), args=event.args, scope=scope, scope_ref=ref,
            deadline=started.deadline, fresh=fresh, index=index, count=started.count, item=item, ctx=ctx, since=since,
            iter=within, priority=state.priority, root=state.root, due_by=due_by, at=at,
        ))
    return commands


def _scope(step: Step, event: ev.StepScheduled, values: Values) -> tuple[ev.Scope, Ref | None]:
    """What the tasks read, in the command itself if it fits. What only `loop.in` reads is left out: else every
    iteration would load it again."""
    scope = event.scope if event.scope_ref is None else msgspec.convert(value_of(event.scope_ref, values), ev.Scope)
    scope = narrow(step.task_needs, scope.workload, scope.ctx, scope.steps, scope.caller)
    if event.scope_ref is None or len(msgspec.json.encode(scope)) <= MAX_INLINE_BYTES:
        return scope, None
    return ev.Scope(), event.scope_ref


def local_loops(state: Schedule) -> list[Loop]:
    """Local loops that a worker should have."""
    return [loop for loop in state.loops.values() if loop.is_local and loop.next and loop.halted is None]


def local_command(
    step: Step, state: Schedule, loop: Loop, values: Values, *, fresh: bool, since: int = 0, at: float = 0.0
) -> Command:
    """One command for all iterations of a local loop; after a pause, `since` is the record that ends it."""
    event, started = loop.event, loop.started
    assert started is not None
    assert step.loop is not None
    if step.loop.stop_when is None:
        scope, ref = _scope(step, event, values)
    else:  # the worker evaluates `stop_when`, which may read more than the tasks do
        scope, ref = event.scope, event.scope_ref
    local = Local(started.items, started.items_ref, started.max_in_flight, started.parallel, started.taken)
    return Command(
        execution_id=state.execution_id, run_id=event.run_id, step=event.step, digest=event.digest, pool=event.pool,
        cause=loop.sent.get(RUN, loop.cause), args=event.args, scope=scope, scope_ref=ref, deadline=started.deadline,
        fresh=fresh, count=started.count, since=since, priority=state.priority, local=local, root=state.root,
        due_by=_loop_due_by(loop), at=at,
    )


def _loop_due_by(loop: Loop) -> str:
    started = loop.started.deadline if loop.started is not None else ""
    return loop.event.due_by if started == loop.event.deadline else time_limits.TIMEOUT


def frame_command(state: Schedule, loop: Loop, *, fresh: bool, at: float = 0.0) -> Command:
    """The command to claim the frame that was requested."""
    event, started, claims = loop.event, loop.started, loop.claims
    assert started is not None
    assert claims is not None
    return Command(
        execution_id=state.execution_id, run_id=event.run_id, step=event.step, digest=event.digest, pool=event.pool,
        cause=loop.sent.get(FIRST_FRAME, loop.cause), args=event.args, scope=event.scope, scope_ref=event.scope_ref,
        deadline=started.deadline, fresh=fresh, index=of_frame(claims.asked - 1), count=claims.size,
        priority=state.priority, root=state.root, due_by=_loop_due_by(loop), at=at,
    )


def is_asked(loop: Loop, frame: int) -> bool:
    """The frame was requested and has no answer yet."""
    return loop.claims is not None and loop.claims.open and loop.claims.asked == frame + 1


def is_unknown(loop: Loop, index: int) -> bool:
    """A report about an iteration or a frame that this state never started."""
    return index >= loop.next or frame_of(index) >= (loop.claims.asked if loop.claims is not None else 0)


def reads(step: Step, patch: dict[str, Any]) -> bool:
    needs = step.task_needs
    return EVERYTHING in needs.ctx or any(key in needs.ctx or key in needs.names for key in patch)


def resumed_command(
    plans: Plans, state: Schedule, run_id: str, index: int, values: Values, since: int
) -> list[Command]:
    """The command of a run whose wait is over; `since` is the record that says so."""
    if not is_iteration(index):
        dispatch = state.runs.get(run_id)
        return [run_command(state, dispatch, fresh=False, since=since)] if dispatch else []
    loop = state.loops.get(run_id)
    if loop is None or index not in loop.live:
        return []
    return loop_commands(_step(plans, loop), state, loop, [index], values, fresh=False, since=since)


def outstanding(
    plans: Plans, state: Schedule, values: Values = NO_VALUES, wanted: Callable[[str, int], bool] = lambda *_: True
) -> list[Command]:
    """Every command that the log says is due: what to issue again when the queue was lost. `wanted` selects runs and
    iterations."""
    commands: list[Command] = []
    for run_id, dispatch in state.runs.items():
        if not waiting.is_waiting(state, run_id) and limits.is_free(state, dispatch.event) and wanted(run_id, -1):
            since = state.seq if run_id in state.waits else 0
            commands.append(run_command(state, dispatch, fresh=False, since=since))
    for loop in state.loops.values():
        if loop.started is not None:
            if loop.is_local:
                continue
            run_id = loop.event.run_id
            if loop.claims is not None and loop.claims.open and wanted(run_id, of_frame(loop.claims.asked - 1)):
                commands.append(frame_command(state, loop, fresh=False))
            live = [index for index in sorted(loop.live) if wanted(run_id, index) and is_due(state, loop, index)]
            step = _step(plans, loop)
            for since, indexes in _by_since(state, run_id, live).items():
                commands += loop_commands(step, state, loop, indexes, values, fresh=False, since=since)
    for loop in () if state.paused else local_loops(state):
        if wanted(loop.event.run_id, RUN):
            commands.append(local_command(_step(plans, loop), state, loop, values, fresh=False))
    return commands


def _by_since(state: Schedule, run_id: str, indexes: Iterable[int]) -> dict[int, list[int]]:
    """Iterations by the `since` of their commands. One that has never waited has none, whatever the others do: its
    command must have the id of its fresh one, so that the broker accepts one of the two (`scheduler/publisher.py`)."""
    found: dict[int, list[int]] = {}
    for index in indexes:
        waited = state.waits and waiting.run_key(run_id, index) in state.waits
        found.setdefault(state.seq if waited else 0, []).append(index)
    return found


def is_due(state: Schedule, loop: Loop, index: int) -> bool:
    """A worker should have the iteration."""
    return not waiting.is_waiting(state, loop.event.run_id, index) and limits.is_free(state, loop.event, index)
