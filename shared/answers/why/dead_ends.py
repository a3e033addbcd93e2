"""Steps that an execution never came to, because no arc of the run before them held: each arc, with what it read."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from shared.answers.rehearsal.conditions import held
from shared.answers.why.facts import Reason
from shared.answers.why.remedies import remedy
from shared.dsl.model.plan import Plan
from shared.engine.routing.decide import names_at_end
from shared.engine.routing.state import Execution, apply, draft
from shared.engine.values.stored_values import Values
from shared.events import model as ev
from shared.events.record import Record


class DeadEnd(Struct, frozen=True):
    """A run that ended well and that nothing followed, though its step has arcs."""

    step: str
    run_id: str
    at: str
    line: int
    arcs: list[dict[str, Any]]


def is_dead_end(event: ev.Event) -> bool:
    return isinstance(event, ev.NextSelected) and not event.arcs and event.event != "step.failed"


def dead_ends(plan: Plan, state: Execution, record: Record, values: Values) -> Iterator[DeadEnd]:
    """Those of one decision; the arcs are asked again with the state as it was at that event."""
    work = draft(state)
    for event in record.events:
        if isinstance(event, ev.NextSelected) and is_dead_end(event):
            step, run = plan.steps[event.step], work.runs.get(event.run_id)
            if step.arcs and run is not None and run.end is not None:
                names = names_at_end(plan, work, run, values)
                arcs = [{"arc": arc.step, **held(arc.when, names)} for arc in step.arcs]
                yield DeadEnd(step.name, event.run_id, record.ts, step.line, arcs)
        apply(work, event, record.ts)


def not_reached(found: dict[str, DeadEnd], entered: frozenset[str]) -> Iterator[Reason]:
    """By step, the last of each. A step that was entered another time needs no explanation: so a cycle ends."""
    for end in found.values():
        missed = sorted({each["arc"] for each in end.arcs} - entered)
        if missed:
            steps = f"steps {', '.join(missed)} were" if len(missed) > 1 else f"step {missed[0]} was"
            read = "; ".join(f"to {each['arc']}: {each['when']} {_held(each['holds'])}{_read(each['values'])}"
                             for each in end.arcs)
            yield Reason(
                "arcs.none", "note", f"{steps} not entered: no arc of {end.run_id} held ({read})", end.step, end.run_id,
                values={"steps": missed, "line": end.line, "arcs": end.arcs}, since=end.at, remedy=remedy("change_arc"),
            )


def _held(holds: bool | str | None) -> str:
    return f"fails: {holds}" if isinstance(holds, str) else "is false"


def _read(values: dict[str, Any]) -> str:
    return "".join(f", {path} = {value!r}" for path, value in values.items())
