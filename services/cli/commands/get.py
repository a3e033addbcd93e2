"""noetlctl get: one execution from the log, or a list of what a stack has."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from services.cli.console import exits, render
from services.cli.console.exits import CliError
from services.cli.executions import selection
from services.cli.executions.selection import MAX_SELECTED, Selection
from services.cli.stack import context

if TYPE_CHECKING:
    from shared.runtime.service.settings import Settings

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
    from services.cli.console import run_async

    noun, names = _noun(what)
    if not chosen.says_nothing and (noun != "execution" or names):
        raise click.UsageError("-l, --status, --path and --since choose among executions: noetlctl get executions …")
    settings = context.find(context_file)
    if noun != "execution":
        return run_async.run(_list(noun, names, watch, output, settings))
    if names:
        return run_async.run(_one(names, watch, output, settings))
    return run_async.run(_executions(chosen, limit, watch, output, settings))


def _noun(what: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """What is not a noun is the name of an execution."""
    first = what[0].removesuffix("s") if what else "execution"
    return (first, what[1:]) if first in NOUNS else ("execution", what)


async def _one(names: tuple[str, ...], watch: bool, output: str, settings: "Settings") -> int:
    import sys

    from services.cli.executions import generated_names, logbook, requests, set_aside
    from services.cli.executions.display import Lines
    from services.cli.executions.result_output import show
    from shared.answers.history.summary import Summary

    if len(names) > 1:
        raise click.UsageError("name one execution")
    async with context.connected(settings) as bus:
        summary = Summary(names[0])
        for record in (await logbook.read(bus, names[0], settings.partitions)).records:
            summary.apply(record)
        if watch and not summary.over:
            summary = await requests.finish_within(bus, names[0], settings.partitions, None, family=True)
        known = await generated_names.of(bus, summary.digest) if render.is_text(output) else {}
        if render.is_text(output):
            Lines(sys.stdout, known).update(summary)
        await show(bus, summary, output, known, [] if summary.over else await set_aside.shown(bus, names[0]))
    return exits.OK


async def _executions(chosen: Selection, limit: int, watch: bool, output: str, settings: "Settings") -> int:
    from services.cli.console import live_table
    from services.cli.executions import readmodel
    from services.cli.nouns import EXECUTION_COLUMNS

    async def load() -> list[dict[str, object]]:
        return await readmodel.executions(settings.postgres_dsn, chosen, limit)

    if watch:
        await live_table.watched(load, EXECUTION_COLUMNS, output, "execution_id")
    render.rows(await load(), EXECUTION_COLUMNS, output, "execution_id")
    return exits.OK


async def _list(noun: str, names: tuple[str, ...], watch: bool, output: str, settings: "Settings") -> int:
    from services.cli import nouns
    from services.cli.console import live_table

    kind = nouns.NOUNS[noun]
    async with context.connected(settings) as bus:

        async def load() -> list[dict[str, object]]:
            found = await kind.load(bus)
            return [row for row in found if row[kind.name] in names] if names else found

        if watch:
            await live_table.watched(load, kind.columns, output, kind.name)
        rows = await load()
    if missing := [name for name in names if name not in {row[kind.name] for row in rows}]:
        raise CliError(f"no {noun} {missing[0]!r} (`noetlctl get {noun}s` lists them)", exits.NOT_FOUND)
    render.rows(rows, kind.columns, output, kind.name)
    return exits.OK
