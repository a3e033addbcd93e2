"""Lists that keep themselves up to date: redrawn on a terminal, a line per change elsewhere."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NoReturn

import click

from services.cli.console import render, screen
from services.cli.console.render import Column

EVERY_S = 1.0
Row = Mapping[str, Any]
Load = Callable[[], Awaitable[Sequence[Row]]]


async def watched(load: Load, columns: Sequence[Column], output: str, name: str) -> NoReturn:
    """Until interrupted."""
    if sys.stdout.isatty() and render.is_text(output):
        await _drawn(load, columns, output)
    await _lines(load, columns, output, name)


async def _drawn(load: Load, columns: Sequence[Column], output: str) -> NoReturn:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(file=screen.under(sys.stdout)), auto_refresh=False, screen=False) as live:
        while True:
            lines = render.table_lines(await load(), columns, output)
            live.update(Text.from_ansi(screen.ansi("\n".join(lines))), refresh=True)
            await asyncio.sleep(EVERY_S)


async def _lines(load: Load, columns: Sequence[Column], output: str, name: str) -> NoReturn:
    """What is there, then whatever is new or has changed since; `json` is a line each here, as `jsonl`."""
    known: dict[str, Row] = {}
    as_ = "jsonl" if output == "json" else output
    while True:
        rows = await load()
        news = [at for at, row in enumerate(rows) if known.get(str(row[name])) != row]
        if news or not known:
            _print(rows, news, columns, as_, name, headed=not known)
        known = {str(row[name]): row for row in rows}
        sys.stdout.flush()
        await asyncio.sleep(EVERY_S)


def _print(
    rows: Sequence[Row], news: Sequence[int], columns: Sequence[Column], output: str, name: str, *, headed: bool
) -> None:
    if not render.is_text(output):
        render.rows([rows[at] for at in news], columns, output, name)
        return
    title, *lines = render.table_lines(rows, columns, output)
    for line in [*([title] if headed else []), *(lines[at] for at in news)]:
        click.echo(line)
