"""A plan as earlier editions of the language read it (`model/edition.py`). Where they lowered otherwise, lowering asks
`Env.edition` itself."""

from typing import Any

import msgspec
from msgspec.structs import replace

from shared.dsl.model.plan import Arc, Plan, Step, Task
from shared.dsl.model.texts import Text
from shared.dsl.templates.evaluate import is_template


def as_edition(plan: Plan, edition: int) -> Plan:
    """A plan of today as one of that edition."""
    if edition < 4:
        plan = replace(plan, steps={name: replace(step, hides=True) for name, step in plan.steps.items()})
    if edition < 3:
        plan = replace(plan, steps={name: _former(step) for name, step in plan.steps.items()})
    return _as_first(plan) if edition == 1 else plan


def _former(step: Step) -> Step:
    return replace(step, former=True, needs=replace(step.needs, caller=False),
                   task_needs=replace(step.task_needs, caller=False))


def _as_first(plan: Plan) -> Plan:
    steps = {name: _strict(_step(step)) for name, step in plan.steps.items()}
    return replace(plan, steps=steps, workload=_strict(plan.workload), limit=_strict(plan.limit),
                   keychain=_strict(plan.keychain))


def _step(step: Step) -> Step:
    return replace(step, arcs=tuple(map(_arc, step.arcs)), tasks=tuple(map(_task, step.tasks)), all_may_fail=True)


def _arc(arc: Arc) -> Arc:
    """Any guard was asked about a failure."""
    return replace(arc, on_failure=arc.when is not None)


def _task(task: Task) -> Task:
    return replace(task, else_takes_all=True)


def _strict(value: Any) -> Any:
    """The value with every template in it marked."""
    if isinstance(value, str):
        return Text(value, strict=True) if is_template(value) else value
    if isinstance(value, dict):
        return {key: _strict(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_strict(each) for each in value)
    if isinstance(value, msgspec.Struct):
        return replace(value, **{name: _strict(getattr(value, name)) for name in value.__struct_fields__})
    return value
