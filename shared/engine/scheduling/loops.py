"""The decisions of one loop-run.

1. *Beginning.* `loop.started` freezes the collection and the width of the window. From then on every reader of the log
   knows the same elements under the same numbers, whatever ctx becomes; an iteration can be run again by its index.
2. *Windows.* `loop.iteration.started` starts a range of iterations. Started and not ended are never more than
   `max_in_flight`; a sequential loop has a window of one. A wide loop starts iterations in groups (WINDOWS), because a
   decision for every single report would be most of its cost.
3. *Kinds of loops.* Loops within a loop are flattened into the same run (`nesting.py`). A local loop is one window over
   all elements, and its worker keeps to `max_in_flight` (`pipeline/local_machine.py`). A loop with a cursor gets its
   elements as it proceeds (`cursor_rows.py`). One that was taken over runs only what is left (`carried_loop.py`).
4. *Failing.* `fail_fast` (default): the step fails when more iterations have failed than it tolerates, which is none
   unless it says otherwise. `best_effort`: all run, and the step fails only if none of them succeeded. `loop.done`
   lists the failures.
5. *Stopping.* `stop_when` is evaluated for every iteration that ended, in log order. When it holds, `loop.stopped` says
   so, because nothing else in the log would: no further iteration starts and those in flight finish. In a local loop
   the worker evaluates it.
6. *End.* `loop.done` comes once, after every iteration that was started has ended (V10 §8). It never comes early: the
   router continues from it with the results of all.
7. *Bounds.* An element, what the iterations write to ctx, the failures that are listed and the results together are all
   bounded, so that commands and `loop.done` can always be written. A loop over a bound fails; it does not get stuck.
"""

from bisect import bisect
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from shared.dsl.model.plan import Level, Step
from shared.dsl.read.loops import MAX_IN_FLIGHT
from shared.dsl.templates.budget import spend
from shared.dsl.templates.evaluate import evaluate, truth
from shared.dsl.templates.needs import names_used
from shared.dsl.templates.result_view import view
from shared.engine.scheduling import carried_loop, cursor_rows
from shared.engine.scheduling.limits import limit_of
from shared.engine.scheduling.nesting import Grown, Unusable, iter_at, nested
from shared.engine.scheduling.state import Loop
from shared.engine.values.ctx_patch import MAX_CTX_BYTES, largest
from shared.engine.values.scope import visible
from shared.engine.values.stored_values import (
    MAX_RESULT_BYTES,
    MAX_VALUE_BYTES,
    Values,
    item,
    manifest_item,
    resolve,
    resolve_scope,
    value_of,
)
from shared.errors import TemplateError
from shared.events import model as ev
from shared.events.failure import LIMIT, LOOP, TEMPLATE, Failure
from shared.events.outcome import Result
from shared.events.run_index import is_iteration
from shared.events.stamp import stamp

WINDOWS = 50  # a wide loop starts iterations in groups of a fiftieth of its width (rule 2)
RESULT_WORK = 4  # units charged for each result that `stop_when` may read
MAX_FAILURES_LISTED = 100
MAX_FAILURES_BYTES = 65_536
MAX_ITEM_BYTES = 262_144


def decide(step: Step, execution_id: str, loop: Loop, now: float, values: Values) -> Iterable[ev.Event]:
    """The caller applies each event before it asks for the next."""
    run_id = loop.event.run_id
    if loop.started is None:
        begun = _begin(step, execution_id, loop, now, values)
        yield begun
        if isinstance(begun, ev.StepFailed):
            return
    for index in loop.clashes:
        yield ev.IterationFailed(loop.failures.get(index) or {}, (), run_id, index)
    if (failed := failure(step, loop)) is not None:
        yield failed
        return
    try:
        stop = stops_at(step, execution_id, loop, values)
    except TemplateError as error:
        yield _failed(step, loop, error.kind, f"loop.spec.stop_when: {error}")
        return
    if stop is not None:
        yield ev.LoopStopped(run_id, stop, loop.halted.next if loop.halted is not None else -1)
    yield from _proceed(step, execution_id, loop, values)


def is_quiet(step: Step, loop: Loop) -> bool:
    """A cheap test that nothing follows from its state: most reports of a wide loop lead to no decision."""
    started = loop.started
    if started is None or loop.clashes or loop.failures.size or loop.stopped or loop.patches:
        return False
    if step.loop is not None and step.loop.stop_when is not None and loop.recent:
        return False
    if started.taken is not None:
        return False
    if started.local:
        return loop.next > 0 and loop.halted is None and loop.ended < loop.total
    left = loop.total - loop.next
    if loop.claims is not None and (loop.claims.error or cursor_rows.wanted(loop.claims, started, left)):
        return False
    if loop.ended >= loop.total:
        return False
    return not left or started.max_in_flight - len(loop.live) < min(_window(started), left)


def _window(started: ev.LoopStarted) -> int:
    """The smallest number of iterations worth a decision."""
    return max(1, started.max_in_flight // WINDOWS)


def _proceed(step: Step, execution_id: str, loop: Loop, values: Values) -> Iterator[ev.Event]:
    started = loop.started
    assert started is not None
    left = carried_loop.todo(started.taken, values)
    count = loop.next if loop.stopped else loop.total
    is_over = loop.ended == left.below(count)
    if is_over and (loop.stopped or not loop.has_more):
        yield _none_succeeded(step, loop) if _is_lost(step, loop, count) else _ended(step, loop, count, values)
    elif is_over and loop.claims is not None and cursor_rows.is_full(loop.claims):
        yield _failed(step, loop, LIMIT, f"the cursor gave {count} rows, and may have more: all of these are done")
    elif not loop.stopped:
        for event in _windows(step, execution_id, loop, left, values):
            yield event
            if isinstance(event, ev.StepFailed):
                return
        yield from _frames(loop, started, left)


def _windows(
    step: Step, execution_id: str, loop: Loop, left: carried_loop.Todo, values: Values
) -> Iterator[ev.IterationStarted | ev.StepFailed]:
    started, run_id = loop.started, loop.event.run_id
    assert started is not None
    if started.local:
        if loop.next == 0:
            yield ev.IterationStarted(run_id, 0, loop.total)
        return
    waiting = left.below(loop.total) - left.below(loop.next)
    if started.max_in_flight - len(loop.live) < min(_window(started), waiting):
        return
    while (room := started.max_in_flight - len(loop.live)) > 0:
        span = left.span(loop.next, loop.total, room)
        if span is None:
            return
        if step.limit is not None and (failed := _keyless(step, execution_id, loop, *span, values)) is not None:
            yield failed
            return
        yield ev.IterationStarted(run_id, *span)


def _keyless(
    step: Step, execution_id: str, loop: Loop, first: int, count: int, values: Values
) -> ev.StepFailed | None:
    """The step fails if the limit's key of an iteration cannot be rendered: it would wait for a place for ever."""
    for index in range(first, first + count):
        try:
            limit_of(step, execution_id, loop.event, values, iter_of(step, loop, index, values))
        except TemplateError as error:
            return _failed(step, loop, error.kind, f"limits.key of iteration {index}: {error}")
    return None


def _frames(loop: Loop, started: ev.LoopStarted, left: carried_loop.Todo) -> Iterator[ev.FrameStarted]:
    claims = loop.claims
    if claims is None:
        return
    waiting = left.below(claims.claimed) - left.below(loop.next)
    if size := cursor_rows.wanted(claims, started, waiting):
        yield ev.FrameStarted(loop.event.run_id, claims.asked, size)


def failure(step: Step, loop: Loop) -> ev.StepFailed | None:
    """Why the step fails now, if it does."""
    started = loop.started
    assert started is not None
    if loop.patched_bytes > MAX_CTX_BYTES:
        what = f"the iterations wrote {loop.patched_bytes} bytes to ctx"
        most = "" if step.hides else " (most of them ctx.{}, {} bytes)".format(*largest(loop.patches))
        return _failed(step, loop, LIMIT, f"{what}{most}, over {MAX_CTX_BYTES}: keep them as results")
    if (broken := _broken(loop)) is not None:
        return ev.StepFailed(broken, loop.patches, loop.event.run_id, step.name, loop.event.pool)
    tolerated = step.tolerate.of(loop.total)
    if step.failure != "fail_fast" or loop.failures.size <= tolerated:
        return None
    index, error = next(loop.failures.items())
    error = {**error, "index": index}
    if tolerated:
        error |= {"failed": loop.failures.size, "tolerated": tolerated}
    return ev.StepFailed(error, loop.patches, loop.event.run_id, step.name, loop.event.pool)


def _broken(loop: Loop) -> dict[str, Any] | None:
    """Why its worker, or the claim of its rows, cannot continue."""
    if loop.claims is not None and loop.claims.error is not None:
        return {**loop.claims.error, "frame": loop.claims.asked - 1}
    return loop.halted.error if loop.halted is not None else None


# -- the beginning ---------------------------------------------------------------------------


def _begin(step: Step, execution_id: str, loop: Loop, now: float, values: Values) -> ev.LoopStarted | ev.StepFailed:
    assert step.loop is not None
    scope = resolve_scope(loop.event.scope, loop.event.scope_ref, values)

    def elements(level: Level, parent: dict[str, Any]) -> list[Any]:
        names = visible(execution_id, scope, loop.event.args, parent or None)
        try:
            found = evaluate(level.items, names)
        except TemplateError as error:
            raise Unusable(error.kind, f"loop.in: {error}") from None
        if not isinstance(found, list | tuple):
            raise Unusable(LOOP, f"loop.in of step {step.name} must be a list, not {type(found).__name__}")
        _check_sizes(found, MAX_ITEM_BYTES // len(levels))
        return list(found)

    levels, taken = step.loop.levels, loop.taken
    try:
        most = _in_flight(step.loop.max_in_flight, visible(execution_id, scope, loop.event.args))
        if taken is not None:
            count, items, ref = taken.count, taken.items, taken.items_ref
            taken = replace(taken, items=[], items_ref=None)
        else:
            grown = Grown(levels, elements)
            count, items, ref = grown.count, grown.items, None
    except Unusable as error:
        return _failed(step, loop, error.kind, str(error))
    parallel, deadline = step.loop.mode == "parallel", _deadline(step, loop, now)
    frame = step.loop.cursor.frame if step.loop.cursor is not None else 0
    return ev.LoopStarted(
        run_id=loop.event.run_id, step=step.name, count=count, items=items, items_ref=ref, max_in_flight=most,
        parallel=parallel, deadline=deadline, local=step.loop.local, frame=frame, taken=taken,
    )


def _in_flight(given: int | str, names: dict[str, Any]) -> int:
    """The width of the window, fixed from now on. Text is never read as a number."""
    try:
        most = evaluate(given, names)
    except TemplateError as error:
        raise Unusable(LOOP if error.kind == TEMPLATE else error.kind, f"max_in_flight: {error}") from None
    if type(most) is not int or not 1 <= most <= MAX_IN_FLIGHT:
        raise Unusable(LOOP, f"max_in_flight: must be a whole number from 1 to {MAX_IN_FLIGHT}, not {most!r:.60}")
    return most


def _check_sizes(items: Sequence[Any], most: int) -> None:
    if len(msgspec.json.encode(items)) <= most:
        return
    sizes = [len(msgspec.json.encode(item)) for item in items]
    if (size := max(sizes)) > most:
        what = f"element {sizes.index(size)} of loop.in has {size} bytes"
        raise Unusable(LIMIT, f"{what}, over {most}: loop over names or references")


def _deadline(step: Step, loop: Loop, now: float) -> str:
    """`timeout_s` bounds the loop from its start, `deadline` the step from its scheduling."""
    if step.timeout_s is None:
        return loop.event.deadline
    limit = stamp(now + step.timeout_s)
    return min(limit, loop.event.deadline) if loop.event.deadline else limit


def _failed(step: Step, loop: Loop, kind: str, message: str) -> ev.StepFailed:
    failure = Failure(kind, message)
    if kind == LIMIT:
        failure = Failure(kind, f"loop of step {step.name}: {message}", retryable=False)
    return ev.StepFailed(failure.error(), (), loop.event.run_id, step.name, loop.event.pool if loop.started else "")


# -- the end ---------------------------------------------------------------------------------


def stops_at(step: Step, execution_id: str, loop: Loop, values: Values) -> int | None:
    """The first iteration after which `stop_when` holds, of those it was not evaluated for yet. In a local loop the
    worker has evaluated it."""
    assert step.loop is not None
    assert loop.started is not None
    if loop.halted is not None and not loop.stopped and is_iteration(loop.halted.index):
        return loop.halted.index
    if step.loop.stop_when is None or loop.stopped or not loop.recent:
        return None
    taken = loop.started.taken
    if not loop.has_more and carried_loop.todo(taken, values).span(loop.next, loop.total, 1) is None:
        return None
    before = taken.done if taken is not None else 0
    scope = resolve_scope(loop.event.scope, loop.event.scope_ref, values)
    later = [index for _, index in loop.recent]
    known = _Known(loop, later, values) if "results" in names_used(step.loop.stop_when).names else None
    for at, index in enumerate(later):
        names = visible(
            execution_id, scope, loop.event.args, iter_of(step, loop, index, values),
            last=_view(loop.results.get(index), values), count=before + loop.ended - len(later) + at + 1,
            results=known.with_(index) if known is not None else [],
        )
        if truth(step.loop.stop_when, names):
            return index
    return None


def results_so_far(loop: Loop, without: Collection[int], values: Values) -> dict[int, Any]:
    """In index order, with the results that were taken over."""
    assert loop.started is not None
    known = carried_loop.results(loop.started.taken, values)
    left = carried_loop.todo(loop.started.taken, values)
    found = {index: item(each, values) for index, each in enumerate(known) if index not in left}
    found |= {index: _view(each, values) for index, each in loop.results.items() if index not in without}
    return {index: found[index] for index in sorted(found)}


class _Known:
    """The results as they were when each recent iteration ended; put together once for a decision."""

    def __init__(self, loop: Loop, late: list[int], values: Values) -> None:
        found = results_so_far(loop, set(late), values)
        self._loop, self._values = loop, values
        self._indexes, self._results = list(found), list(found.values())
        spend(RESULT_WORK * len(found))

    def with_(self, index: int) -> list[Any]:
        result = self._loop.results.get(index)
        if result is not None:
            place = bisect(self._indexes, index)
            self._indexes.insert(place, index)
            self._results.insert(place, _view(result, self._values))
        return self._results


def _view(result: Result | None, values: Values) -> Any:
    return None if result is None else view(resolve(result, values))


def elements_of(loop: Loop, values: Values) -> list[Any]:
    started = loop.started
    assert started is not None
    items: list[Any] = started.items if started.items_ref is None else value_of(started.items_ref, values)
    return items


def iter_of(step: Step, loop: Loop, index: int, values: Values) -> dict[str, Any]:
    assert step.loop is not None
    if loop.claims is not None:
        return cursor_rows.iteration(loop.claims, step.loop.iterator, index, values)
    return iter_at(step.loop.levels, elements_of(loop, values), index)


def _ended(step: Step, loop: Loop, count: int, values: Values) -> ev.LoopDone | ev.StepFailed:
    """One result is at most MAX_RESULT_BYTES here, so that those of a few always fit together (rule 7)."""
    done = _done(step, loop, count, values)
    if count * 2 * MAX_RESULT_BYTES <= MAX_VALUE_BYTES:
        return done
    if (size := len(msgspec.json.encode(done.result.value))) <= MAX_VALUE_BYTES:
        return done
    return _failed(step, loop, LIMIT, f"{count} results are {size} bytes, over {MAX_VALUE_BYTES}: keep less in each")


def _done(step: Step, loop: Loop, count: int, values: Values) -> ev.LoopDone:
    assert step.loop is not None
    assert loop.started is not None
    known = carried_loop.results(loop.started.taken, values)[:count]
    found = [*known, *([None] * (count - len(known)))]
    for index, result in loop.results.items():
        if index < count:  # the worker that halted a local loop says how many iterations count
            found[index] = manifest_item(result)
    if step.loop.inner:
        found = nested(len(step.loop.levels), elements_of(loop, values), found)
    failed = [index for index, _ in loop.failures.items()]
    value: dict[str, Any] = {"results": found, "count": count, "failed": len(failed)}
    if loop.stopped:
        value["stopped"] = True
    return ev.LoopDone(
        run_id=loop.event.run_id, step=step.name, result=Result(value, "loop"), count=count, failed=len(failed),
        failures=_listed(loop), ctx=loop.patches, stopped=loop.stopped,
    )


def _is_lost(step: Step, loop: Loop, count: int) -> bool:
    """The best effort came to nothing at all."""
    return step.failure == "best_effort" and not step.all_may_fail and loop.failures.size == count > 0


def _none_succeeded(step: Step, loop: Loop) -> ev.StepFailed:
    index, error = next(loop.failures.items())
    error = {**error, "index": index, "failed": loop.failures.size}
    return ev.StepFailed(error, loop.patches, loop.event.run_id, step.name, loop.event.pool)


def _listed(loop: Loop) -> list[dict[str, Any]]:
    """The first failures; every one is in the log as `loop.iteration.failed`."""
    listed: list[dict[str, Any]] = []
    size = 0
    for index, error in loop.failures.items():
        failure = {"index": index, "error": error}
        size += len(msgspec.json.encode(failure))
        if size > MAX_FAILURES_BYTES or len(listed) == MAX_FAILURES_LISTED:
            break
        listed.append(failure)
    return listed
