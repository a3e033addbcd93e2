"""What a finished or shown execution looks like on stdout."""

import json
from typing import Any

import click

from services.cli import exits
from services.cli.origins import Origins, where
from shared.bus.ports import Bus
from shared.engine.summary import Summary

EXITS = {"completed": exits.OK, "failed": exits.FAILED, "cancelled": exits.CANCELLED}


async def show(bus: Bus, summary: Summary, output: str, origins: Origins | None = None) -> int:
    """Prints the execution and gives the exit code its status stands for."""
    shown = await _with_result(bus, summary)
    if output == "json":
        click.echo(json.dumps(shown, ensure_ascii=False))
    else:
        _text(shown, origins or {})
    return EXITS.get(summary.status, exits.OK)


def line(fields: dict[str, str], output: str) -> None:
    """A short answer: its first field in text, all of them in JSON."""
    click.echo(json.dumps(fields) if output == "json" else next(iter(fields.values())))


async def _with_result(bus: Bus, summary: Summary) -> dict[str, Any]:
    """A large result lies outside the log; the reader wants the value, not the reference."""
    shown = summary.as_dict()
    if summary.result is not None and summary.result.ref is not None:
        from shared.runtime.results import load

        shown["result"] = await load(bus, summary.result.ref)
    return shown


def _text(shown: dict[str, Any], origins: Origins) -> None:
    if shown["error"]:
        error = shown["error"]
        line = f"{shown['status']}: {error.get('kind', 'error')}: {error.get('message', error)}"
        click.echo(line + where(error, origins), err=True)
    result = shown["result"]
    if result is not None:
        click.echo(result if isinstance(result, str) else json.dumps(result, indent=2, ensure_ascii=False))
