"""Why a rehearsal decided as it did: the conditions, whether they held, and the values they read."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from shared.answers.rehearsal.types import Rehearsed
from shared.dsl.model.plan import EVERYTHING, Plan
from shared.dsl.model.texts import as_written
from shared.dsl.templates.evaluate import truth
from shared.dsl.templates.needs import names_used
from shared.dsl.templates.values import Undefined, member, plain
from shared.engine.pipeline import decide as pipeline
from shared.engine.routing import decide as routing
from shared.engine.routing.state import Execution, apply, draft, evolve
from shared.errors import TemplateError
from shared.events import model as ev
from shared.events.readers import FOLDED

MAX_VALUE_TEXT = 200
NOT_ASKED: dict[str, Any] = {"when": None, "holds": False, "values": {}}  # an arc that takes no failures


def because_arcs(plan: Plan, found: Rehearsed, run_id: str) -> list[dict[str, Any]]:
    """Every arc of the run's step, as it was looked at when the run had ended."""
    before = _before(found, lambda event: isinstance(event, ev.NextSelected) and event.run_id == run_id)
    run = before[0].runs.get(run_id) if before is not None else None
    if before is None or run is None or run.end is None:
        return []
    step = plan.steps[run.step]
    if all(arc.when is None for arc in step.arcs):
        return []
    names = routing.names_at_end(plan, before[0], run, found.values)
    failed = run.end.event == "step.failed"
    return [{"arc": arc.step, **(NOT_ASKED | {"when": as_written(arc.when)} if failed and not arc.on_failure else
                                 held(arc.when, names))} for arc in step.arcs]


def because_admission(plan: Plan, found: Rehearsed, name: str) -> list[dict[str, Any]]:
    """The admission rules of a step, as the first token to enter it, or not, was held against them."""
    step = plan.steps.get(name)
    before = _before(found, lambda event: _comes_to(event, name)) if step is not None and step.admit else None
    if step is None or before is None:
        return []
    state, event = before
    tokens = event.tokens if isinstance(event, ev.StepScheduled) else (event.token_id,)
    names = routing.names_at_entry(plan, state, step, tokens, found.values)
    return [{"rule": at, "allow": rule.allow, **held(rule.when, names)} for at, rule in enumerate(step.admit)]


def _comes_to(event: ev.Event, step: str) -> bool:
    return isinstance(event, ev.StepScheduled | ev.TokenRejected) and event.step == step


def _before(found: Rehearsed, wanted: Callable[[ev.Event], bool]) -> tuple[Execution, Any] | None:
    """The state in the middle of a decision, right before the first such event, and the event."""
    state = Execution(found.execution_id)
    for seq, record in found.entries:
        for place, event in enumerate(record.events if record.writer == "router" else ()):
            if wanted(event):
                state = draft(state)
                for earlier in record.events[:place]:
                    apply(state, earlier, record.ts)
                return state, event
        if record.writer in FOLDED["router"]:
            state = evolve(state, record, seq)
    return None


def because_rules(
    plan: Plan, found: Rehearsed, run_id: str, index: int, task: str, attempt: int
) -> list[dict[str, Any]]:
    """The rules of the task, as its outcome was held against them the first time."""
    place = (run_id, index, task, attempt)
    need = next((n for n in found.calls if (n.run_id, n.index, n.task, n.attempt) == place), None)
    event = next((
        event for _, record in found.entries for event in record.events
        if record.lease is not None and (record.lease.run_id, record.lease.index) == place[:2]
        and isinstance(event, ev.TaskDone | ev.TaskRetried) and (event.task, event.attempt) == place[2:]), None)
    rules = next((each.rules for each in plan.steps[run_id.rpartition(":")[0]].tasks if each.name == task), None)
    if need is None or event is None or rules is None:
        return []
    names = {**need.names, "outcome": pipeline.outcome_view(event.outcome)}
    return [{"rule": at, "do": rule.then.do, **held(rule.when, names)} for at, rule in enumerate(rules)]


def held(when: Any, names: Mapping[str, Any]) -> dict[str, Any]:
    """A condition, whether it holds, and what it reads."""
    if when is None:
        return {"when": None, "holds": None, "values": {}}
    try:
        holds: bool | str = truth(when, names)
    except TemplateError as error:
        holds = str(error)
    return {"when": as_written(when), "holds": holds, "values": values_read(when, names)}


def values_read(source: Any, names: Mapping[str, Any]) -> dict[str, Any]:
    """The values behind the names of an expression, as far as they are there; long ones are cut."""
    needs = names_used(source)
    found: dict[str, Any] = {}
    for name in sorted(needs.names):
        if name in names:
            found[name] = short(_parts(names[name], needs.parts.get(name)))
    for space, keys in (("ctx", needs.ctx), ("workload", needs.workload)):
        data = names.get(space) or {}
        for key in sorted(data if EVERYTHING in keys else keys & data.keys()):
            found[f"{space}.{key}"] = short(data[key])
    return found


def _parts(value: Any, keys: frozenset[str] | None) -> Any:
    """Of a value of which only some keys are read, those."""
    found = {key: member(value, key) for key in sorted(keys or ())}
    return {key: each for key, each in found.items() if not isinstance(each, Undefined)} or value


def short(value: Any) -> Any:
    """The value as plain data; its beginning as text when it is long."""
    try:
        data = plain(value)
        text = msgspec.json.encode(data).decode()
    except (TypeError, ValueError):
        data, text = str(value), str(value)
    return data if len(text) <= MAX_VALUE_TEXT else text[:MAX_VALUE_TEXT] + "…"
