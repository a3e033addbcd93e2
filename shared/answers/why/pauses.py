"""A paused execution: who goes on with which of its runs, and what nobody has. A run that lost its worker is sent to
another one also during the pause, except a loop that one worker runs as a whole: the resume sends that."""

from collections.abc import Iterator
from typing import Any

from shared.answers.why.facts import Pool, Reason, World
from shared.answers.why.pools import is_silent
from shared.answers.why.remedies import remedy
from shared.answers.why.runs import is_with, left
from shared.answers.why.view import Hold, View
from shared.engine.routing.state import Run, is_at_work
from shared.engine.scheduling import decide as scheduling
from shared.events.run_index import RUN

MAX_LISTED = 5


def paused(view: View, world: World | None) -> Iterator[Reason]:
    """Without `world`, what the log says."""
    asked = view.pause
    if not view.state.paused or asked is None:
        return
    runs = [run for run in view.state.runs.values() if is_at_work(run)]
    said = [text for run in runs if (text := _said(view, world, run))]
    more = [f"{len(said) - MAX_LISTED} more runs are under way"] if len(said) > MAX_LISTED else []
    yield Reason(
        "paused", "blocked", f"it was paused by {asked.by or 'someone'}" + (f": {asked.reason}" if asked.reason else "")
        + f"; {'; '.join([*said[:MAX_LISTED], *more]) or 'nothing runs'}, and nothing follows",
        values={"by": asked.by, "reason": asked.reason, "at_work": [_values(view, world, run) for run in runs]},
        since=view.times["paused"], remedy=remedy("resume", execution_id=view.execution_id),
    )


def pools(view: View) -> set[str]:
    """Of the loops for which no command is due during a pause."""
    return {loop.event.pool for loop in scheduling.local_loops(view.schedule)} if view.state.paused else set()


def _said(view: View, world: World | None, run: Run) -> str:
    """Nothing of what waits without a worker: those reasons are their own."""
    have, had = _workers(view, world, run)
    loop = view.schedule.loops.get(run.run_id)
    if have:
        return f"{run.run_id} goes on to its end on {', '.join(have)}" if loop is None else \
            f"{run.run_id} goes on to its end on {', '.join(have)} as far as its iterations are in flight"
    if run.parked or (loop is not None and not loop.live):
        return ""
    lost = ", ".join(f"{hold.worker} had it and {_left(view, world, run, hold)}" for hold in had)
    before = f" ({lost})" if lost else ""
    then = "the next worker that takes it goes on to its end"
    if loop is not None and loop.is_local:
        then = f"its iterations in flight ({len(loop.live)}) continue after the resume, each where it was"
    return f"nobody has {run.run_id}{before}: {then}"


def _values(view: View, world: World | None, run: Run) -> dict[str, Any]:
    have, had = _workers(view, world, run)
    holds = [hold for hold in _holds(view, run) if hold.worker in have]
    found = {"run_id": run.run_id, "workers": have, "since": min((hold.since for hold in holds), default="")}
    return {**found, "had": [hold.worker for hold in had]} if had else found


def _workers(view: View, world: World | None, run: Run) -> tuple[list[str], list[Hold]]:
    """Those that have it now, and the last hold of each that had it."""
    loop = view.schedule.loops.get(run.run_id)
    have, had = set[str](), dict[str, Hold]()
    for (run_id, index), hold in view.holds.items():
        if run_id != run.run_id or hold.state != "held":
            continue
        key = view.execution_id, run_id, RUN if loop is not None and loop.is_local else index
        if world is None or (is_with(hold, world, key) and not is_silent(world.worker(hold.worker), world.now)):
            have.add(hold.worker)
        else:
            had[hold.worker] = hold
    return sorted(have), [had[name] for name in sorted(had) if name not in have]


def _holds(view: View, run: Run) -> list[Hold]:
    return [hold for place, hold in view.holds.items() if place[0] == run.run_id and hold.state == "held"]


def _left(view: View, world: World | None, run: Run, hold: Hold) -> str:
    loop, dispatch = view.schedule.loops.get(run.run_id), view.schedule.runs.get(run.run_id)
    sent = loop or dispatch
    name = sent.event.pool if sent is not None else ""
    return left(hold, world, world.pools.get(name, Pool(name))) if world is not None else "is gone"
