"""What a finished or shown execution looks like on stdout."""

import json
from collections.abc import Mapping
from typing import Any

import click

from services.cli import exits, render
from services.cli.origins import Origins, where
from shared.bus.ports import Bus
from shared.engine.large import resolve
from shared.engine.summary import Summary
from shared.events.outcome import Result
from shared.runtime.results import brought

EXITS = {"completed": exits.OK, "failed": exits.FAILED, "cancelled": exits.CANCELLED}


async def show(bus: Bus, summary: Summary, output: str, origins: Origins | None = None) -> int:
    """Prints the execution and gives the exit code its status stands for."""
    shown = {**summary.as_dict(), "result": await whole(bus, summary.result)}
    render.document(shown, output, "execution_id", lambda: _text(shown, origins or {}))
    return EXITS.get(summary.status, exits.OK)


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
    return found.value["results"] if found.shape == "loop" else found.value


def _text(shown: dict[str, Any], origins: Origins) -> None:
    if shown["error"]:
        error = shown["error"]
        line = f"{shown['status']}: {error.get('kind', 'error')}: {error.get('message', error)}"
        click.echo(line + where(error, origins), err=True)
    result = shown["result"]
    if result is not None:
        click.echo(result if isinstance(result, str) else json.dumps(result, indent=2, ensure_ascii=False))
