"""Reasons of the execution as a whole: it is over, paused, being cancelled or undone; and its router or scheduler has
something to decide and does not."""

from collections.abc import Iterator
from typing import Any, Literal

from shared.answers.history import failures
from shared.answers.rerun import rerun
from shared.answers.why.facts import Reason, World
from shared.answers.why.pools import PATIENCE_S
from shared.answers.why.remedies import ENDS, GOES_ON, Remedy, remedy, start
from shared.answers.why.runs import called
from shared.answers.why.view import Plans, View
from shared.engine.routing import cancel_and_pause, compensation
from shared.engine.routing import decide as routing
from shared.engine.routing.state import is_at_work, is_over
from shared.engine.scheduling import decide as scheduling
from shared.engine.values.stored_values import Values
from shared.events import model as ev
from shared.events.failure import (
    ASSERT,
    AUTH,
    CAPACITY,
    CONFIG,
    CTX,
    CTX_CONFLICT,
    DISABLED,
    LOOP,
    PLAYBOOK,
    POOL,
    REQUEST,
    TEMPLATE,
    TIMEOUT,
    WORKER_LOST,
    is_retryable,
    kind_of,
)
from shared.events.record import event_type
from shared.events.stamp import seconds, stamp

Service = Literal["router", "scheduler"]
# What only another source mends.
OF_THE_SOURCE = frozenset({TEMPLATE, CONFIG, ASSERT, LOOP, CTX, CTX_CONFLICT})
OUTSIDE = frozenset({AUTH, PLAYBOOK, POOL, TIMEOUT, WORKER_LOST, DISABLED, CAPACITY})  # what is mended elsewhere


def over(view: View) -> Iterator[Reason]:
    state = view.state
    if not is_over(state):
        return
    error = state.error or {}
    if view.request_error is not None:
        yield Reason(
            "request.refused", "over", f"the request was refused: {error.get('message', '')}", values={"error": error},
            since=view.times.get("ended", ""), remedy=_after_refusal(error, view.path),
        )
        return
    step = view.step(str(error.get("step", "")))
    line = step.line if step is not None else None
    place = [f"step {error['step']}" + (f" (line {line})" if line else "")] if error.get("step") else []
    place += [f"task {error['task']}"] if error.get("task") else []
    said = f": {error.get('kind')}: {error.get('message')}" if error else ""
    if view.cancelling is not None and state.status == "cancelled":
        said = f" by {view.cancelling.by or 'someone'}: {error.get('message')}"
    where = f", in {', '.join(place)}" if place else ""
    where += _at_the_loss(view, str(error.get("step", ""))) if kind_of(error) == WORKER_LOST else ""
    yield Reason(
        "over", "over", f"it is over, {state.status}{said}{where}", str(error.get("step", "")),
        task=str(error.get("task", "")), attempt=int(error.get("attempt", 0) or 0),
        values={"status": state.status, "error": state.error, "line": line,
                "failure": failures.shown(view.failures.behind(state.error))}, since=view.times.get("ended", ""),
        remedy=_after_end(view),
    )


def _at_the_loss(view: View, step: str) -> str:
    """What the last worker of those that were lost was doing, which may be what ended it."""
    holds, known = [hold for hold in view.holds.values() if hold.step == step], view.step(step)
    task = max(holds, key=lambda hold: hold.last).task if holds else ""
    if not task and known is not None and len(known.tasks) == 1:  # it did not come to say so
        task = known.tasks[0].name
    return f"; it was in task {task}{called(view, step, task)[0]}, which may be what ends its workers" if task else ""


def _after_end(view: View) -> Remedy | None:
    """Nothing that would be refused."""
    if view.state.status == "completed":
        return None
    error = view.state.error or {}
    again = remedy("rerun_failed", execution_id=view.execution_id)
    mended = remedy("rerun_mended", execution_id=view.execution_id)
    if rerun.refusal(view.state, stopped=view.stopped):
        again = mended = remedy("execute", path=view.path)
    if view.state.status == "failed" and kind_of(error) in OF_THE_SOURCE:
        return remedy("mend", mended, place=_source_place(view, str(error.get("step", ""))))
    if isinstance(credential := error.get("credential"), str):
        return remedy("renew_credential", again, credential=credential)
    if again.code == "execute" or view.state.status == "cancelled" or kind_of(error) in OUTSIDE or is_retryable(error):
        return again
    return remedy("unless_source", again, execution_id=view.execution_id)


def _source_place(view: View, step: str) -> str:
    known = view.step(step)
    line = f" (line {known.line})" if known is not None and known.line else ""
    return f"step {step}{line} of the playbook" if step else "the playbook"


def _after_refusal(error: dict[str, Any], path: str) -> Remedy:
    if kind_of(error) in (POOL, AUTH, PLAYBOOK):  # what is not there; the error names it and how it is made
        return remedy("execute_mended", path=path)
    return remedy("register_and_execute" if kind_of(error) == REQUEST else "execute_otherwise", path=path)


def held_up(view: View) -> Iterator[Reason]:
    """That it is cancelled, and what follows from a failure."""
    state = view.state
    at_work = _at_work(view)
    if state.status == "cancelling":
        asked = view.cancelling
        yield Reason(
            "cancelling", "blocked", "it is being cancelled: it is over when nothing runs any more "
            f"({_names(at_work)}), or when its grace is",
            values={"by": asked.by if asked else "", "reason": asked.reason if asked else "", "at_work": at_work},
            since=view.times.get("cancelling", ""), until=state.until, remedy=ENDS,
        )
    if state.status == "compensating":
        yield _compensating(view, at_work)


def _compensating(view: View, at_work: list[dict[str, Any]]) -> Reason:
    state, fate = view.state, view.state.fate
    assert fate is not None
    undoing = next((run for run in state.runs.values() if run.compensates), None)
    left = [undo.run_id for undo in state.undo if undo.run_id not in state.undone]
    if undoing is not None:
        text = f"run {undoing.run_id} undoes {undoing.compensates}"
    else:
        text = f"what still runs is waited for: {_names(at_work)}"
    until = state.until if undoing is None and compensation.due(state) is not None else ""
    return Reason(
        "compensating", "blocked", f"it ends as {fate.status}, and what it did is undone first: {text}; {len(left)} "
        "more to undo", undoing.step if undoing is not None else "", undoing.run_id if undoing is not None else "",
        values={"status": fate.status, "error": fate.error, "left": left, "faults": list(state.faults),
                "at_work": at_work},
        since=view.times.get("compensating", ""), until=until, remedy=ENDS,
    )


def _at_work(view: View) -> list[dict[str, Any]]:
    """What runs as far as the log says, and with whom."""
    found = []
    for run in view.state.runs.values():
        if is_at_work(run):
            holds = [hold for place, hold in view.holds.items() if place[0] == run.run_id and hold.state == "held"]
            found.append({"run_id": run.run_id, "workers": sorted({hold.worker for hold in holds}),
                          "since": min((hold.since for hold in holds), default="")})
    return found


def _names(at_work: list[dict[str, Any]]) -> str:
    names = [f"{run['run_id']} on {', '.join(run['workers'])}" if run["workers"] else run["run_id"] for run in at_work]
    return ", ".join(names[:5]) + ("…" if len(names) > 5 else "") if names else "nothing runs"


# -- decisions that are due ------------------------------------------------------------------


def undecided(view: View, plans: Plans, now: float, values: Values) -> dict[Service, list[ev.Event]]:
    """What each control service would write now, from the very log that it reads."""
    found: dict[Service, list[ev.Event]] = {}
    if view.plan is None or is_over(view.state):
        return found
    if routed := routing.decide(view.plan, view.state, now, values):
        found["router"] = routed
    if scheduled := scheduling.decide(plans, view.schedule, now, values):
        found["scheduler"] = scheduled
    return found


def since(view: View, service: Service, now: float) -> float:
    """When the decision became due: by the last record it reads, or by time."""
    heard = view.heard.get(service)
    due = cancel_and_pause.due(view.state) if service == "router" else scheduling.due(view.schedule)
    times = [seconds(heard[1]) if heard is not None else seconds(view.started)]
    if due is not None and due <= now:
        times.append(due)
    return max(times)


def is_late(view: View, service: Service, now: float) -> bool:
    return now - since(view, service, now) > PATIENCE_S


def late(view: View, world: World, due: dict[Service, list[ev.Event]]) -> Iterator[Reason]:
    for service, events in due.items():
        yield _late(view, world, service, sorted({event_type(event) for event in events}))


def _late(view: View, world: World, service: Service, types: list[str]) -> Reason:
    at, seq = since(view, service, world.now), view.heard.get(service, (view.last, ""))[0]
    what = f"the {service} has to decide ({', '.join(types)})"
    values: dict[str, Any] = {"events": types, "record": seq}
    if not is_late(view, service, world.now):
        return Reason(f"{service}.deciding", "running", f"{what} and is about to", values=values, since=stamp(at),
                      remedy=GOES_ON)
    if world.members is not None and not world.members.get(service):
        return Reason(f"{service}.gone", "blocked", f"{what}, and no {service} is running", values=values,
                      since=stamp(at), remedy=start(service))
    values["members"] = list((world.members or {}).get(service, ()))
    cursor = world.cursors.get(service)
    if cursor is not None and cursor < seq:
        return Reason(
            f"{service}.behind", "blocked", f"{what} and has not got there: at most {seq - cursor} records of the "
            f"partition stand before it", values={**values, "cursor": cursor}, since=stamp(at),
            remedy=GOES_ON,
        )
    return Reason(
        f"{service}.silent", "blocked", f"{what} and has said nothing for {world.now - at:.0f} s: it may be slow, wait "
        "for something, or have set this execution aside", values={**values, "cursor": cursor}, since=stamp(at),
        remedy=remedy("look_at_log", execution_id=view.execution_id, service=service),
        moved_by=None if cursor is None else "nothing",  # it has passed what it should have acted on
    )
