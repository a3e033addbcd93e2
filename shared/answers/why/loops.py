"""Loops: which iterations fill the window, and what they wait for themselves; and the same reason of many iterations
as one."""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from shared.answers.history import failures
from shared.answers.why.facts import Reason
from shared.answers.why.remedies import remedy
from shared.answers.why.view import View
from shared.engine.scheduling.loops import WINDOWS
from shared.engine.scheduling.state import Loop
from shared.events.failure import kind_of, message_of
from shared.events.run_index import is_iteration

MAX_LISTED = 20


def windows(view: View) -> Iterator[Reason]:
    """Loops of which no further iteration can start before one has ended."""
    for run_id, loop in view.schedule.loops.items():
        started = loop.started
        if started is None or (loop.next >= loop.total and not loop.stopped):
            continue
        common = progress(view, run_id)
        if loop.stopped:
            text = f"stop_when holds: no further iteration of {run_id} starts, {len(loop.live)} in flight end first"
            yield Reason("loop.stopped", "note", text, loop.event.step, run_id, values=common, since=loop.at)
        elif started.max_in_flight - len(loop.live) < max(1, started.max_in_flight // WINDOWS):
            yield _full(run_id, loop, common)


def tolerated(view: View) -> Iterator[Reason]:
    """Loops that were done although iterations of them failed: an execution that completed does not tell."""
    for at, loop in view.tolerated:
        first = loop.failures[0] if loop.failures else {}
        error = {**(first.get("error") or {}), "step": loop.step}
        said = f"; the first, iteration {first['index']}: {kind_of(error)}: {message_of(error)}" if first else ""
        yield Reason(
            "loop.failures", "note", f"{loop.failed} of {loop.count} iterations of {loop.run_id} failed, and the loop "
            f"was done all the same{said}", loop.step, loop.run_id, task=str(error.get("task", "")),
            values={"count": loop.count, "failed": loop.failed, "failures": loop.failures[:MAX_LISTED],
                    "failure": failures.shown(view.failures.behind(error))},
            since=at, remedy=remedy("list_failures", execution_id=view.execution_id, step=loop.step),
        )


def progress(view: View, run_id: str) -> dict[str, Any]:
    """How far a loop has come. Of a loop with a cursor, `count` are the rows that were claimed so far."""
    loop = view.schedule.loops[run_id]
    most = loop.started.max_in_flight if loop.started is not None else 0
    return {
        "count": loop.total, "begun": loop.next, "ended": loop.ended, "max_in_flight": most,
        "in_flight": len(loop.live), "oldest": _oldest(view, run_id, loop),
    }


def _full(run_id: str, loop: Loop, values: dict[str, Any]) -> Reason:
    most, rest, oldest = values["max_in_flight"], values["count"] - values["begun"], values["oldest"]
    if most == 1:
        text = f"{run_id} is sequential: {rest} iterations wait for iteration {min(loop.live, default=0)}"
    else:
        text = f"{run_id}: {len(loop.live)} iterations fill its max_in_flight of {most}, and {rest} wait"
    if oldest and oldest[0]["worker"]:
        text += f"; the first of them, {oldest[0]['index']}, was begun by {oldest[0]['worker']} at {oldest[0]['since']}"
    return Reason("loop.window", "blocked", text, loop.event.step, run_id, values=values, since=loop.at,
                  remedy=remedy("iteration_ends"))


def _oldest(view: View, run_id: str, loop: Loop) -> list[dict[str, Any]]:
    found = []
    for index in sorted(loop.live)[:MAX_LISTED]:
        hold = view.holds.get((run_id, index))
        found.append({"index": index, "worker": hold.worker if hold is not None else "",
                      "since": hold.began if hold is not None else "", "task": hold.task if hold is not None else ""})
    return found


def merged(reasons: Iterable[Reason]) -> list[Reason]:
    """Iterations of one loop with the same cause are one reason: the first, with the indexes of all."""
    groups: dict[tuple[Any, ...], list[Reason]] = {}
    for number, reason in enumerate(reasons):
        key: tuple[Any, ...] = (number,)
        if is_iteration(reason.index) and not reason.because:
            told = (reason.values.get(name) for name in ("key", "signal", "worker"))
            key = reason.cause, reason.run_id, *told
        groups.setdefault(key, []).append(reason)
    return [_one(group) for group in groups.values()]


def _one(group: list[Reason]) -> Reason:
    if len(group) == 1:
        return group[0]
    group.sort(key=lambda reason: reason.index)
    times = sorted(reason.until for reason in group if reason.until)
    first = group[0]
    return replace(
        first, indexes=tuple(reason.index for reason in group),
        text=f"{first.text} (the same of {len(group)} iterations)", until=times[0] if times else "",
    )
