"""How much of a playbook its tests have reached: steps, arcs, admission rules, rules of tasks, compensations.

The log says where an execution went. Which of several arcs or rules led there is asked of the same decider again,
in the state it decided on."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from shared.answers.history.history import Entry
from shared.dsl.authoring.source_lines import Lines
from shared.dsl.model.plan import AdmitRule, Plan, Step
from shared.dsl.model.texts import as_written
from shared.dsl.templates.evaluate import truth
from shared.engine.pipeline.assertions import kept
from shared.engine.pipeline.decide import Progress, outcome_view
from shared.engine.routing import decide as routing
from shared.engine.routing import state as execution
from shared.engine.routing.state import End, Execution
from shared.engine.values.stored_values import Values
from shared.errors import TemplateError
from shared.events import model as ev
from shared.events.outcome import Outcome
from shared.events.readers import INPUTS
from shared.events.record import Record

Kind = Literal["step", "arc", "admission", "rule", "compensation"]
KINDS: tuple[Kind, ...] = ("step", "arc", "admission", "rule", "compensation")
MAX_CONDITION = 60  # characters of a condition that are shown


class Part(Struct, frozen=True):
    """A part of a playbook that a test can reach. `task` is the one a rule belongs to."""

    kind: Kind
    step: str
    index: int = 0
    task: str = ""


class Reached(Struct, frozen=True):
    """`times` is in how many decisions it took part."""

    part: Part
    line: int
    what: str
    times: int


class Coverage:
    """Of one playbook, over any number of executions."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._times: dict[Part, int] = {}

    def watch(self, step: Step, progress: Progress, outcome: Outcome, names: Mapping[str, Any]) -> None:
        """A task has answered, and its rules are about to decide."""
        at = _rule(step, progress, outcome, names)
        if at >= 0:
            self._add(Part("rule", step.name, at, progress.task))

    def add(self, execution_id: str, entries: list[Entry], values: Values) -> None:
        """The log of an execution."""
        state = Execution(execution_id)
        inputs = iter([entry for entry in entries if entry[1].writer in INPUTS["router"]])
        pending = next(inputs, None)
        for seq, record in [entry for entry in entries if entry[1].writer == "router"]:
            while pending is not None and pending[0] <= record.as_of:
                state = execution.evolve(state, pending[1], pending[0])
                pending = next(inputs, None)
            self._decision(state, record, seq, values)
            state = execution.evolve(state, record, seq)

    def _decision(self, before: Execution, record: Record, seq: int, values: Values) -> None:
        state = execution.draft(before)
        for event in record.events:
            for part in self._parts(state, event, seq, values):
                self._add(part)
            execution.apply(state, event, record.ts)

    def _parts(self, state: Execution, event: ev.Event, seq: int, values: Values) -> Iterator[Part]:
        match event:
            case ev.StepScheduled(step=step, compensates=compensates):
                yield Part("step", step)
                if compensates:
                    yield Part("compensation", compensates.rpartition(":")[0])
                elif self.plan.steps[step].admit:
                    names = routing.names_at_entry(self.plan, state, self.plan.steps[step], event.tokens, values)
                    yield Part("admission", step, _first(self.plan.steps[step].admit, names))
            case ev.TokenRejected(step=step, rule=rule) if rule >= 0:
                yield Part("admission", step, rule)
            case ev.NextSelected(run_id=run_id, step=step, event=boundary) if self.plan.steps[step].arcs:
                run = state.runs[run_id]
                end = run.end if run.end is not None and run.end.event == boundary else _end(boundary, seq)
                names = routing.names_at_end(self.plan, state, replace(run, end=end), values)
                with suppress(TemplateError):  # of a patch that did not fit the error is not in the log
                    for at in _taken(self.plan.steps[step], end, names):
                        yield Part("arc", step, at)

    def _add(self, part: Part) -> None:
        self._times[part] = self._times.get(part, 0) + 1

    def parts(self, lines: Lines) -> list[Reached]:
        """Every part there is, in the order of the source."""
        found = [Reached(part, line, what, self._times.get(part, 0)) for part, line, what in _all(self.plan, lines)]
        return sorted(found, key=lambda each: (each.line, KINDS.index(each.part.kind)))


def _first(rules: Sequence[AdmitRule], names: Mapping[str, Any]) -> int:
    return next(at for at, rule in enumerate(rules) if rule.when is None or truth(rule.when, names))


def _taken(step: Step, end: End, names: Mapping[str, Any]) -> list[int]:
    """The arcs that the end of a run selects."""
    found = []
    for at, arc in enumerate(step.arcs):
        if routing.takes(arc, end.event, names):
            found.append(at)
            if step.mode == "exclusive":
                break
    return found


def _end(boundary: str, seq: int) -> End:
    """Of a step without tools, or of a run whose patches failed."""
    assert boundary in ("step.done", "step.failed", "loop.done")
    return End("step.failed" if boundary == "step.failed" else "step.done", seq)


def _rule(step: Step, progress: Progress, outcome: Outcome, names: Mapping[str, Any]) -> int:
    """The rule that decides about the outcome; -1: none does. A retry that is used up is passed over."""
    task = next(task for task in step.tasks if task.name == progress.task)
    seen = {**names, "outcome": outcome_view(kept(task, outcome))}
    used_up = False
    for index, rule in enumerate(task.rules or ()):
        if rule.when is None and used_up and not task.else_takes_all:
            return -1
        try:
            matches = rule.when is None or truth(rule.when, seen)
        except TemplateError:
            return -1
        if matches and not (rule.then.do == "retry" and progress.attempt >= rule.then.attempts):
            return index
        used_up = used_up or matches
    return -1


def _all(plan: Plan, lines: Lines) -> Iterator[tuple[Part, int, str]]:
    for name, step in plan.steps.items():
        yield Part("step", name), lines.step(name), f"step {name}"
        for index, arc in enumerate(step.arcs):
            yield Part("arc", name, index), lines.arc(name, index), f"arc {name} → {arc.step}{_when(arc.when)}"
        for index, rule in enumerate(step.admit):
            what = f"admission of {name}, {'allow' if rule.allow else 'refuse'}{_when(rule.when, 'else')}"
            yield Part("admission", name, index), lines.admission(name, index), what
        for at, task in enumerate(step.tasks):
            for index, then in enumerate(task.rules or ()):
                what = f"rule of {name}.{task.name}, {then.then.do}{_when(then.when, 'else')}"
                yield Part("rule", name, index, task.name), lines.rule(name, at, index), what
        if step.compensate is not None:
            what = f"compensation of {name} by {step.compensate.step}"
            yield Part("compensation", name), lines.compensation(name), what


def _when(condition: Any, otherwise: str = "") -> str:
    if condition is None:
        return f" ({otherwise})" if otherwise else ""
    text = str(as_written(condition)).replace("{{", "").replace("}}", "").strip()
    return f" when {text if len(text) <= MAX_CONDITION else text[:MAX_CONDITION] + '…'}"
