"""The condition that a parked call is waiting on, as its event."""

from typing import Any

from msgspec.structs import replace

from shared.engine.pipeline.decide import Progress
from shared.engine.values.growth import without
from shared.engine.values.scope import within
from shared.engine.values.stored_values import Values, resolve_scope
from shared.events import model as ev
from shared.events.command import Command
from shared.events.request import derive_id
from shared.events.run_index import is_iteration
from shared.events.stamp import seconds, stamp
from shared.events.waits import Waits


def event(
    command: Command, progress: Progress, waits: Waits, key: str, values: Values, now: float, limits: list[float]
) -> ev.TaskWaiting:
    """`key` names the attempt, and with it its child. `limits` are the run's own: the next worker
    reports that its time is over."""
    child = waits.child
    if child is not None:
        child = replace(child, execution_id=derive_id("child", key), iter=_iter(command, progress, values))
    if child is None and not waits.signal:
        limits = [*limits, seconds(waits.until) if waits.until else now + waits.for_s]
    elif waits.timeout_s is not None:
        limits = [*limits, now + waits.timeout_s]
    return ev.TaskWaiting(
        progress.task, progress.attempt, progress.wait, child, stamp(min(limits)) if limits else "",
        signal=waits.signal, schema=waits.schema,
    )


def pause(progress: Progress, until: float) -> ev.TaskWaiting:
    return ev.TaskWaiting(progress.task, progress.attempt, progress.pause, None, stamp(until), pause=True)


def _iter(command: Command, progress: Progress, values: Values) -> dict[str, Any]:
    """What a child sees as `iter.parent`: outside of a loop, the iteration around this execution."""
    caller = resolve_scope(command.scope, command.scope_ref, values).caller
    if not is_iteration(command.index) and progress.each is None:
        return caller
    own = without(progress.iter)
    return within(own, caller) if caller else own
