"""The scheduling decider: loops and their windows; and the commands that follow from the log.

1. A scheduled loop freezes its collection (`loop.started`), then sends windows of iterations, never
   more than `max_in_flight` at once. A sequential loop is a window of one.
2. `fail_fast` (default): the first failed iteration fails the step. `best_effort`: all run, and
   `loop.done` carries the failures.
3. `loop.done` comes once, after every iteration has ended (V10 §8).
4. What a loop carries is bounded, so that its commands and its end always fit into a message: an
   element, what its iterations write to ctx, and the failures that are listed.

A plain run needs no decision: its command follows from `step.scheduled` alone.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from shared.dsl.plan import EVERYTHING, Plan, Step
from shared.dsl.template import evaluate
from shared.engine.large import Values, manifest_item, resolve_scope, value_of
from shared.engine.schedule import Dispatch, Loop, Schedule, apply, draft
from shared.engine.scope import narrow, visible
from shared.errors import TemplateError
from shared.events import model as ev
from shared.events.command import Command
from shared.events.outcome import Result
from shared.events.stamp import stamp

MAX_ITERATIONS = 1_000_000
MAX_FAILURES_LISTED = 100
MAX_FAILURES_BYTES = 65_536
MAX_ITEM_BYTES = 262_144
MAX_LOOP_CTX_BYTES = 262_144
NO_VALUES: Values = {}
Plans = Callable[[str], Plan]


def decide(plans: Plans, state: Schedule, now: float, values: Values = NO_VALUES) -> list[ev.Event]:
    """Everything that follows for the loops of one execution."""
    if not state.loops or state.finished:
        return []
    work = draft(state)
    events: list[ev.Event] = []
    for run_id in list(work.loops):
        loop = work.loops[run_id]
        step = plans(loop.event.digest).steps[loop.event.step]
        for event in _decide_loop(step, state.execution_id, loop, values):
            events.append(event)
            apply(work, event, stamp(now))
    return events


def _decide_loop(step: Step, execution_id: str, loop: Loop, values: Values) -> Iterable[ev.Event]:
    run_id = loop.event.run_id
    if loop.started is None:
        begun = _begin(step, execution_id, loop, values)
        yield begun
        if isinstance(begun, ev.StepFailed):
            return
    for index in loop.clashes:
        yield ev.IterationFailed(loop.failures[index], (), run_id, index)
    started = loop.started
    assert started is not None  # the caller applies each event before it asks for the next
    if loop.patched_bytes > MAX_LOOP_CTX_BYTES:
        what = f"the iterations wrote {loop.patched_bytes} bytes to ctx"
        yield _over(step, run_id, f"{what}, over {MAX_LOOP_CTX_BYTES}: keep them as results")
    elif loop.failures and step.failure == "fail_fast":
        index, error = next(iter(loop.failures.items()))
        yield ev.StepFailed({**error, "index": index}, loop.patches, run_id, step.name)
    elif len(loop.results) + len(loop.failures) == started.count:
        yield _done(step, loop, started.count)
    else:
        room = min(started.max_in_flight - len(loop.live), started.count - loop.next)
        if room > 0:
            yield ev.IterationStarted(run_id, loop.next, room)


def _begin(step: Step, execution_id: str, loop: Loop, values: Values) -> ev.LoopStarted | ev.StepFailed:
    assert step.loop is not None
    scope = resolve_scope(loop.event.scope, loop.event.scope_ref, values)
    run_id = loop.event.run_id
    try:
        items = evaluate(step.loop.items, visible(execution_id, scope, loop.event.args))
    except TemplateError as error:
        return ev.StepFailed({"kind": "template", "message": f"loop.in: {error}"}, (), run_id, step.name)
    if not isinstance(items, list | tuple):
        message = f"loop.in of step {step.name} must be a list, not {type(items).__name__}"
        return ev.StepFailed({"kind": "loop", "message": message}, (), run_id, step.name)
    if len(items) > MAX_ITERATIONS:
        return _over(step, run_id, f"loop.in has {len(items)} elements, over {MAX_ITERATIONS}")
    index, size = _largest(items)
    if size > MAX_ITEM_BYTES:
        what = f"element {index} of loop.in has {size} bytes"
        return _over(step, run_id, f"{what}, over {MAX_ITEM_BYTES}: loop over names or references")
    parallel = step.loop.mode == "parallel"
    return ev.LoopStarted(run_id, step.name, len(items), list(items), None, step.loop.max_in_flight, parallel)


def _largest(items: Sequence[Any]) -> tuple[int, int]:
    """The index and size of the largest element; (-1, 0) when all together are within the limit."""
    if len(msgspec.json.encode(items)) <= MAX_ITEM_BYTES:
        return -1, 0
    sizes = [len(msgspec.json.encode(item)) for item in items]
    return sizes.index(max(sizes)), max(sizes)


def _over(step: Step, run_id: str, message: str) -> ev.StepFailed:
    error = {"kind": "limit", "message": f"loop of step {step.name}: {message}", "retryable": False}
    return ev.StepFailed(error, (), run_id, step.name)


def _done(step: Step, loop: Loop, count: int) -> ev.LoopDone:
    none = Result()
    values = [manifest_item(loop.results.get(index, none)) for index in range(count)]
    failed = sorted(loop.failures)
    value = {"results": values, "count": count, "failed": len(failed)}
    return ev.LoopDone(
        loop.event.run_id, step.name, Result(value, "loop"), count, len(failed), _listed(loop, failed), loop.patches
    )


def _listed(loop: Loop, failed: list[int]) -> list[dict[str, Any]]:
    """The first failures; every one stands in the log as `loop.iteration.failed`."""
    listed: list[dict[str, Any]] = []
    size = 0
    for index in failed[:MAX_FAILURES_LISTED]:
        failure = {"index": index, "error": loop.failures[index]}
        size += len(msgspec.json.encode(failure))
        if size > MAX_FAILURES_BYTES:
            break
        listed.append(failure)
    return listed


# -- commands --------------------------------------------------------------------------------


def run_command(execution_id: str, dispatch: Dispatch, *, fresh: bool) -> Command:
    event = dispatch.event
    return Command(
        execution_id, event.run_id, event.step, event.digest, event.pool, dispatch.cause,
        event.args, event.scope, event.scope_ref, event.deadline, fresh,
    )


def loop_commands(
    step: Step, execution_id: str, loop: Loop, indexes: Iterable[int], values: Values, *, fresh: bool
) -> list[Command]:
    """One command per iteration; each carries its element, and of scope and ctx writes what it may read."""
    event, started = loop.event, loop.started
    assert started is not None
    items = started.items if started.items_ref is None else value_of(started.items_ref, values)
    scope = narrow(step.task_needs, event.scope.workload, event.scope.ctx, event.scope.steps)
    deadline = _deadline(step, loop)
    ctx = tuple(patch for patch in loop.patches if _reads(step, patch))
    return [
        Command(
            execution_id, event.run_id, event.step, event.digest, event.pool, loop.cause,
            event.args, scope, event.scope_ref, deadline, fresh, index, started.count, items[index], ctx,
        )
        for index in indexes
    ]


def _deadline(step: Step, loop: Loop) -> str:
    if step.timeout_s is None:
        return loop.event.deadline
    limit = stamp(loop.started_at + step.timeout_s)
    return min(limit, loop.event.deadline) if loop.event.deadline else limit


def _reads(step: Step, patch: dict[str, Any]) -> bool:
    needs = step.task_needs
    return EVERYTHING in needs.ctx or any(key in needs.ctx or key in needs.names for key in patch)


def outstanding(plans: Plans, state: Schedule, values: Values = NO_VALUES) -> list[Command]:
    """Every command the log says is due and not answered: what to issue when the queue was lost."""
    commands = [run_command(state.execution_id, dispatch, fresh=False) for dispatch in state.runs.values()]
    for loop in state.loops.values():
        if loop.started is not None:
            step = plans(loop.event.digest).steps[loop.event.step]
            commands += loop_commands(step, state.execution_id, loop, sorted(loop.live), values, fresh=False)
    return commands
