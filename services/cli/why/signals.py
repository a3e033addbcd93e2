"""Whether a signal is one that its execution waits for, or will: one that nobody wants would lie there for ever."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from services.cli.console import exits
from services.cli.console.exits import CliError

if TYPE_CHECKING:
    from services.cli.executions.logbook import Logbook
    from shared.answers.why.view import View
    from shared.dsl.model.plan import Plan, Task


async def check(book: "Logbook", name: str, payload: Any) -> None:
    """CliError when nothing waits for that name, now or later (7), when its payload would be rejected (3), or when too
    many are kept already (8). A name that a template gives is known only when it is waited for: then it is told that
    nobody does yet."""
    from shared.answers.why.view import UNFIT, viewed
    from shared.engine.scheduling.signals import FULL, has_room
    from shared.errors import NoetlError

    try:
        view = await book.ask(partial(viewed, book.execution_id, book.entries, book.plans, book.values))
    except (NoetlError, *UNFIT):  # its history or its playbook cannot be read from here: the router decides
        return
    if not has_room(view.schedule, payload):
        raise CliError(f"{book.execution_id}: {FULL}", exits.CONFLICT)
    schemas = list(_waiting(view, name))
    if not schemas:
        schemas = list(_planned(view.plan, name)) if view.plan is not None else [{}]
        if not schemas:
            raise CliError(_unwanted(view, name), exits.NOT_FOUND)
        click.echo(f"noetlctl: nothing waits for {name!r} yet; it is kept until something does", err=True)
    _check_payload(name, payload, schemas)


def _waiting(view: "View", name: str) -> Iterator[dict[str, Any]]:
    """The schema of the wait that would take it: the first."""
    for wait in view.schedule.waits.values():
        if not wait.over and wait.event.signal == name:
            yield wait.event.schema
            return


def _planned(plan: "Plan", name: str) -> Iterator[dict[str, Any]]:
    from shared.dsl.templates.evaluate import is_template

    for task in _tasks(plan):
        given = str(task.config.get("signal"))
        if given == name or is_template(given):
            yield dict(task.config.get("schema") or {}) if given == name else {}


def _tasks(plan: "Plan") -> "Iterator[Task]":
    return (task for step in plan.steps.values() for task in step.tasks if task.kind == "signal")


def _check_payload(name: str, payload: Any, schemas: list[dict[str, Any]]) -> None:
    from shared.engine.scheduling.signals import misfit

    wrong = [misfit(payload, schema) for schema in schemas]
    if all(wrong):
        raise CliError(f"the payload does not fit what signal {name!r} must have: {wrong[0]}", exits.INVALID)


def _unwanted(view: "View", name: str) -> str:
    from shared.dsl.read.reader import nearest

    names = sorted({str(task.config.get("signal")) for task in _tasks(view.plan)} if view.plan is not None else ())
    said = f"nothing in {view.path} waits for a signal {name!r}"
    if near := nearest(name, names):
        return f"{said}: did you mean {near}?"
    if names:
        return f"{said} (it waits for {', '.join(names)})"
    return f"{said}, nor for any other; one of an execution that it started is sent to that: noetlctl why " \
        f"{view.execution_id}"
