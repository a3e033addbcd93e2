"""What a finished or shown execution looks like on stdout."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from services.cli.console import exits, render, screen
from services.cli.executions import failure_lines
from services.cli.executions.generated_names import Origins, where
from services.cli.executions.set_aside import sentence
from shared.answers.history import failures
from shared.answers.history.summary import Summary, loop_results
from shared.bus.ports import Bus
from shared.engine.values.stored_values import resolve, resolve_ctx
from shared.errors import NoetlError
from shared.events.outcome import Result
from shared.runtime.stores.results import brought

EXITS = {"completed": exits.OK, "failed": exits.FAILED, "cancelled": exits.CANCELLED}


async def show(
    bus: Bus, summary: Summary, output: str, origins: Origins | None = None,
    aside: Sequence[Mapping[str, Any]] | None = None,
) -> int:
    """Prints the execution and returns the exit code of its status. `aside`: the service that has set it aside."""
    shown = summary.as_dict()
    shown |= {"ctx": await whole_ctx(bus, shown["ctx"]), "result": await whole(bus, summary.result)}
    shown["failure"] = await failure_of(bus, summary)
    if aside is not None:
        shown["aside"] = list(aside)
    render.document(shown, output, "execution_id", lambda: _text(shown, origins or {}))
    return EXITS.get(summary.status, exits.OK)


async def failure_of(bus: Bus, summary: Summary) -> dict[str, Any] | None:
    """What is known of the call that it failed with."""
    failed, values = summary.failures.behind(summary.error), dict[str, Any]()
    try:
        found = await brought(bus, values, lambda: failures.shown(failed, values))
    except NoetlError:  # what it came to is no longer stored
        found = failures.shown(failed)
    return await failure_lines.located(bus, summary.digest, found)


def line(fields: Mapping[str, Any], output: str) -> None:
    """A short answer: its first field in text, all of them in JSON."""
    first = next(iter(fields))
    render.document(fields, output, first, lambda: click.echo(fields[first]))


async def whole(bus: Bus, result: Result | None) -> Any:
    """A large value lies outside the log; the reader wants the value, not the reference."""
    if result is None:
        return None
    values: dict[str, Any] = {}
    found = await brought(bus, values, lambda: resolve(result, values))
    return loop_results(found) if found.shape == "loop" else found.value


async def whole_ctx(bus: Bus, ctx: dict[str, Any]) -> dict[str, Any]:
    """Likewise for the large values of ctx."""
    stored: dict[str, Any] = {}
    return await brought(bus, stored, lambda: resolve_ctx(ctx, stored))


def _text(shown: dict[str, Any], origins: Origins) -> None:
    for each in shown.get("aside", ()):
        click.echo(sentence(each), err=True)
    if shown["error"]:
        error = shown["error"]
        line = f"{shown['status']}: {error.get('kind', 'error')}: {error.get('message', error)}"
        click.echo(line + where(error, origins), err=True)
        for each in failure_lines.lines(shown["failure"]):
            click.echo(each, err=True)
    result = shown["result"]
    if result is not None:
        if isinstance(result, str):
            screen.exact(result)
        else:
            click.echo(json.dumps(result, indent=2, ensure_ascii=not screen.takes_unicode()))
