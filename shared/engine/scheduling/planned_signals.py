"""Which signals the tasks of a playbook wait for, now or later: what no task can ever take is refused where it enters,
and does not lie in the log for ever. A name that a template gives may be any."""

from collections.abc import Iterator
from typing import Any

from shared.dsl.model.plan import Plan, Task
from shared.dsl.read.reader import nearest
from shared.dsl.templates.evaluate import is_template
from shared.engine.scheduling.signals import misfit


def schemas(plan: Plan, name: str) -> list[dict[str, Any]]:
    """What the payload must be like for each of the tasks that wait for it, or may; none: nothing does."""
    return [
        _schema(task) if given == name else {}
        for task in _tasks(plan) for given in [str(task.config.get("signal"))] if given == name or is_template(given)
    ]


def refusal(plan: Plan, name: str, payload: Any) -> str:
    """Why no task of the playbook can take the signal; empty if one may."""
    asked = schemas(plan, name)
    return rejected(name, payload, asked) if asked else unwanted(plan, name)


def rejected(name: str, payload: Any, asked: list[dict[str, Any]]) -> str:
    """Why none of the waits, by what they ask for, would take it."""
    wrong = [misfit(payload, schema) for schema in asked]
    return f"the payload does not fit what signal {name!r} must have: {wrong[0]}" if all(wrong) else ""


def unwanted(plan: Plan, name: str) -> str:
    said, known = f"nothing in {plan.path} waits for a signal {name!r}", names(plan)
    if near := nearest(name, known):
        return f"{said}: did you mean {near}?"
    return f"{said} (it waits for {', '.join(known)})" if known else f"{said}, nor for any other"


def names(plan: Plan) -> list[str]:
    return sorted({str(task.config.get("signal")) for task in _tasks(plan)})


def _schema(task: Task) -> dict[str, Any]:
    """What is no schema fails its task, when that begins: it says nothing about a signal."""
    given = task.config.get("schema")
    return given if isinstance(given, dict) else {}


def _tasks(plan: Plan) -> Iterator[Task]:
    return (task for step in plan.steps.values() for task in step.tasks if task.kind == "signal")
