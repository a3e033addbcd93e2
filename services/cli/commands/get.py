"""noetlctl get: one execution from the log, or a list of what a stack has."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from services.cli import context, exits, render, selection
from services.cli.exits import CliError
from services.cli.selection import MAX_SELECTED, Selection

if TYPE_CHECKING:
    from shared.runtime.settings import Settings

NOUNS = ("execution", "playbook", "schedule", "trigger", "credential", "pool", "worker")


@click.command("get", epilog="Examples: noetlctl get executions --status failed --since 2h -l team=data -o wide   "
               "noetlctl get 4f1c…   noetlctl get workers --watch")
@click.argument("what", nargs=-1, metavar="[NOUN [NAME]… | EXECUTION]")
@selection.options
@click.option("--limit", type=click.IntRange(1, MAX_SELECTED), default=20, show_default=True,
              help="How many executions to list, the latest first.")
@click.option("-w", "--watch", is_flag=True, help="Go on: drawn anew on a terminal, a line per change elsewhere.")
@render.option()
@context.option
def command(
    what: tuple[str, ...], chosen: Selection, limit: int, watch: bool, output: str, context_file: Path | None
) -> int:
    """Show an execution, or list executions, playbooks, schedules, triggers, credentials, pools or workers.

    NOUN is one of them, also in the singular; executions unless given. One execution is read from the log, the list
    of executions from PostgreSQL. Exits 0 whatever became of an execution.
    """
    from services.cli import aio

    noun, names = _noun(what)
    if not chosen.says_nothing and (noun != "execution" or names):
        raise click.UsageError("-l, --status, --path and --since choose among executions: noetlctl get executions …")
    settings = context.find(context_file)
    if noun != "execution":
        return aio.run(_list(noun, names, watch, output, settings))
    if names:
        return aio.run(_one(names, watch, output, settings))
    return aio.run(_executions(chosen, limit, watch, output, settings))


def _noun(what: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """What is not a noun is the name of an execution."""
    first = what[0].removesuffix("s") if what else "execution"
    return (first, what[1:]) if first in NOUNS else ("execution", what)


async def _one(names: tuple[str, ...], watch: bool, output: str, settings: "Settings") -> int:
    import sys

    from services.cli import logbook, origins, requests
    from services.cli.display import Lines
    from services.cli.output import show
    from shared.engine.summary import Summary

    if len(names) > 1:
        raise click.UsageError("name one execution")
    async with context.connected(settings) as bus:
        summary = Summary(names[0])
        for record in (await logbook.read(bus, names[0], settings.partitions)).records:
            summary.apply(record)
        if watch and not summary.over:
            summary = await requests.finish_within(bus, names[0], settings.partitions, None, family=True)
        known = await origins.of(bus, summary.digest) if render.is_text(output) else {}
        if render.is_text(output):
            Lines(sys.stdout, known).update(summary)
        await show(bus, summary, output, known)
    return exits.OK


async def _executions(chosen: Selection, limit: int, watch: bool, output: str, settings: "Settings") -> int:
    from services.cli import live, readmodel
    from services.cli.listing import EXECUTION_COLUMNS

    async def load() -> list[dict[str, object]]:
        return await readmodel.executions(settings.postgres_dsn, chosen, limit)

    if watch:
        await live.watched(load, EXECUTION_COLUMNS, output, "execution_id")
    render.rows(await load(), EXECUTION_COLUMNS, output, "execution_id")
    return exits.OK


async def _list(noun: str, names: tuple[str, ...], watch: bool, output: str, settings: "Settings") -> int:
    from services.cli import listing, live

    kind = listing.NOUNS[noun]
    async with context.connected(settings) as bus:

        async def load() -> list[dict[str, object]]:
            found = await kind.load(bus)
            return [row for row in found if row[kind.name] in names] if names else found

        if watch:
            await live.watched(load, kind.columns, output, kind.name)
        rows = await load()
    if missing := [name for name in names if name not in {row[kind.name] for row in rows}]:
        raise CliError(f"no {noun} {missing[0]!r} (`noetlctl get {noun}s` lists them)", exits.NOT_FOUND)
    render.rows(rows, kind.columns, output, kind.name)
    return exits.OK
