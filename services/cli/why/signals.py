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
    from shared.dsl.model.plan import Plan


async def check(book: "Logbook", name: str, payload: Any) -> None:
    """CliError when nothing waits for that name, now or later (7), when its payload would be rejected (3), or when too
    many are kept already (8). A name that a template gives is known only when it is waited for: then it is told that
    nobody does yet."""
    from shared.answers.why.view import UNFIT, viewed
    from shared.engine.scheduling import planned_signals
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
        schemas = planned_signals.schemas(view.plan, name) if view.plan is not None else [{}]
        if view.plan is not None and not schemas:
            raise CliError(_unwanted(view.execution_id, view.plan, name), exits.NOT_FOUND)
        click.echo(f"noetlctl: nothing waits for {name!r} yet; it is kept until something does", err=True)
    if wrong := planned_signals.rejected(name, payload, schemas):
        raise CliError(wrong, exits.INVALID)


def _waiting(view: "View", name: str) -> Iterator[dict[str, Any]]:
    """The schema of the wait that would take it: the first."""
    for wait in view.schedule.waits.values():
        if not wait.over and wait.event.signal == name:
            yield wait.event.schema
            return


def _unwanted(execution_id: str, plan: "Plan", name: str) -> str:
    from shared.engine.scheduling import planned_signals

    said = planned_signals.unwanted(plan, name)
    if planned_signals.names(plan):
        return said
    return f"{said}; one of an execution that it started is sent to that: noetlctl why {execution_id}"
