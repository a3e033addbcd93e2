"""The id of an execution, as it is typed. What cannot be one goes no further: in a subject the broker takes `*` for
every execution, and an empty one, of a variable that is not set, for none of its own."""

from typing import Any

import click

from services.cli.console import exits
from services.cli.console.exits import CliError
from shared.events.bounds import EXECUTION_ID

MAX_SHOWN = 80
EMPTY = "the id of an execution is empty: is a variable not set? (`noetlctl get` lists the recent ones)"


class ExecutionId(click.ParamType[str]):
    name = "execution"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if _is_empty(value):
            self.fail(EMPTY, param, ctx)
        return checked(value)


def checked(text: str) -> str:
    """Exit code 2 when it is empty, 7 when no execution can have it."""
    if _is_empty(text):
        raise click.UsageError(EMPTY)
    if not EXECUTION_ID.fullmatch(text):
        shown = repr(text[:MAX_SHOWN]) + ("…" if len(text) > MAX_SHOWN else "")
        raise CliError(f"there is no execution {shown}: an id is letters, digits, _ and -, at most 64 "
                       "(`noetlctl get` lists the recent ones)", exits.NOT_FOUND)
    return text


def _is_empty(text: str) -> bool:
    return not text.strip()


argument = click.argument("execution", type=ExecutionId())
optional = click.argument("execution", required=False, type=ExecutionId())
several = click.argument("executions", nargs=-1, type=ExecutionId())
