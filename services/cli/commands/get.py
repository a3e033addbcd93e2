"""noetlctl get: one execution from the log, or a list of what a stack has."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from services.cli.console import execution_ids, exits, render
from services.cli.console.exits import CliError
from services.cli.executions import selection
from services.cli.executions.selection import MAX_SELECTED, Selection
from services.cli.stack import completions, context

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from services.cli.executions.logbook import Logbook
    from services.cli.stack.context import Found
    from shared.bus.ports import Bus
    from shared.runtime.service.settings import Settings

SORTS = ("started", "ended", "took", "path", "status")
MAX_PAGES = 100_000
NOUNS = ("execution", "playbook", "schedule", "trigger", "credential", "pool", "worker")


class Listing(NamedTuple):
    """Which part of the list, and how it is sorted."""

    limit: int
    page: int
    sort: str
    reverse: bool


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """A noun; then, of those that have names, one of them."""
    typed = ctx.params.get("what") or ()
    names = {"playbook": completions.paths, "pool": completions.pools, "credential": completions.credentials}
    if not typed:
        return completions.words([f"{noun}s" for noun in NOUNS])(ctx, param, incomplete)
    noun = typed[0].removesuffix("s")
    return names[noun](ctx, param, incomplete) if noun in names else []


@click.command("get", epilog="Examples: noetlctl get executions --status failed --since 2h -l team=data -o wide   "
               "noetlctl get 4f1c…   noetlctl get workers --watch")
@click.argument("what", nargs=-1, metavar="[NOUN [NAME]… | EXECUTION]", shell_complete=_complete)
@click.option("--version", default="", help="Of a playbook: this one, or a digest of its history.")
@selection.options
@click.option("--limit", type=click.IntRange(1, MAX_SELECTED), default=20, show_default=True,
              help="How many executions to list.")
@click.option("--page", type=click.IntRange(1, MAX_PAGES), default=1, help="The next ones, of --limit each.")
@click.option("--sort", type=click.Choice(SORTS), default="started", show_default=True,
              help="The latest, the longest, or by name first.")
@click.option("--reverse", is_flag=True, help="The other way round.")
@click.option("--stuck", is_flag=True, help="Those that stand still, with what holds them and since when.")
@click.option("-w", "--watch", is_flag=True, help="Go on: drawn anew on a terminal, a line per change elsewhere.")
@render.option()
@context.option
def command(
    what: tuple[str, ...], version: str, chosen: Selection, limit: int, page: int, sort: str, reverse: bool,
    stuck: bool, watch: bool, output: str, context_file: Path | None,
) -> int:
    """Show an execution, or list executions, playbooks, schedules, triggers, credentials, pools or workers.

    NOUN is one of them, also in the singular; executions unless given. One execution is read from the log, the list
    of executions from PostgreSQL. `get playbook PATH -o yaml` prints its source. Exits 0 whatever became of an
    execution.
    """
    from services.cli.console import run_async

    noun, names = _noun(what)
    lists = noun == "execution" and not names
    if not lists and (not chosen.says_nothing or stuck or reverse or (page, sort) != (1, "started")):
        raise click.UsageError("-l, --status, --path, --since, --until, --stuck, --page, --sort and --reverse choose "
                               "among executions: noetlctl get executions …")
    if stuck:
        if watch or reverse or (page, sort) != (1, "started"):
            raise click.UsageError("--stuck lists what has stood longest first, once")
        return run_async.run(_stuck(chosen, limit, output, context.locate(context_file)))
    if version and (noun != "playbook" or len(names) != 1):
        raise click.UsageError("--version is of one playbook: noetlctl get playbook PATH --version 1 -o yaml")
    settings = context.find(context_file)
    if noun == "playbook" and len(names) == 1 and output == "yaml" and not watch:
        return run_async.run(_source(names[0], version, settings))
    if version:
        return run_async.run(_version(names[0], version, output, settings))
    if noun != "execution":
        return run_async.run(_list(noun, names, watch, output, settings))
    if names:
        return run_async.run(_one(tuple(map(execution_ids.checked, names)), watch, output, settings))
    return run_async.run(_executions(chosen, Listing(limit, page, sort, reverse), watch, output, settings))


def _noun(what: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """What is not a noun is the name of an execution."""
    first = what[0].removesuffix("s") if what else "execution"
    return (first, what[1:]) if first in NOUNS else ("execution", what)


async def _one(names: tuple[str, ...], watch: bool, output: str, settings: "Settings") -> int:
    import sys

    from services.cli.executions import generated_names, requests, set_aside
    from services.cli.executions.display import Lines
    from services.cli.executions.result_output import show
    from shared.answers.history.summary import Summary

    if len(names) > 1:
        raise click.UsageError("name one execution")
    async with context.connected(settings) as bus:
        summary = Summary(names[0])
        for record in (await _read(bus, names[0], settings)).records:
            summary.apply(record)
        if watch and not summary.over:
            summary = await requests.finish_within(bus, names[0], settings.partitions, None, family=True)
        known = await generated_names.of(bus, summary.digest) if render.is_text(output) else {}
        if render.is_text(output):
            Lines(sys.stdout, known).update(summary)
        await show(bus, summary, output, known, [] if summary.over else await set_aside.shown(bus, names[0]))
    return exits.OK


async def _read(bus: "Bus", name: str, settings: "Settings") -> "Logbook":
    """What is no execution may be a noun that is mistyped."""
    from difflib import get_close_matches

    from services.cli.executions import logbook

    try:
        return await logbook.read(bus, name, settings.partitions)
    except CliError as error:
        near = get_close_matches(name.lower(), [f"{noun}s" for noun in NOUNS], n=1)
        if error.code != exits.NOT_FOUND or not near:
            raise
        raise CliError(f"no noun and no execution {name!r}: did you mean `noetlctl get {near[0]}`?",
                       exits.NOT_FOUND) from None


async def _executions(chosen: Selection, asked: Listing, watch: bool, output: str, settings: "Settings") -> int:
    from services.cli.console import live_table
    from services.cli.executions import freshness, readmodel
    from services.cli.nouns import EXECUTION_COLUMNS

    limit, offset = asked.limit, (asked.page - 1) * asked.limit

    async def load(more: int = 0) -> list[dict[str, object]]:
        part = readmodel.Part(limit + more, offset, asked.sort, asked.reverse)
        return await readmodel.executions(settings.postgres_dsn, chosen, part)

    if watch:
        await live_table.watched(load, EXECUTION_COLUMNS, output, "execution_id")
    found = await load(1)
    render.rows(found[:limit], EXECUTION_COLUMNS, output, "execution_id")
    if len(found) > limit:
        click.echo(f"these are {offset + 1} to {offset + limit}, and there are more: --page {asked.page + 1}, "
                   f"or --limit up to {MAX_SELECTED:,}", err=True)
    if note := await freshness.note(settings):
        click.echo(note, err=True)
    return exits.OK


async def _stuck(chosen: Selection, limit: int, output: str, found: "Found") -> int:
    from datetime import UTC, datetime

    from services.cli.why import held, many, many_text

    looked = await held.look(found, chosen, MAX_SELECTED)
    now = datetime.now(UTC)
    still = [one for one in looked.standing if many.is_still(one, now, many.STILL_S)]
    ordered = sorted(still, key=many.age)
    render.rows([many_text.row(one) for one in ordered[:limit]], many_text.COLUMNS, output, "execution_id")
    if len(ordered) > limit:
        click.echo(f"{limit} of {len(ordered)} that stand still: --limit", err=True)
    looked.say()
    return exits.OK


async def _source(path: str, version: str, settings: "Settings") -> int:
    """As it was registered."""
    from services.cli.playbooks import catalogue

    async with context.connected(settings) as bus:
        source = await catalogue.source(bus, await catalogue.one(bus, path, version))
    click.echo(source.decode("utf-8", "replace"), nl=not source.endswith(b"\n"))
    return exits.OK


async def _version(path: str, version: str, output: str, settings: "Settings") -> int:
    from services.cli import nouns
    from services.cli.playbooks import catalogue

    kind = nouns.NOUNS["playbook"]
    async with context.connected(settings) as bus:
        known = await catalogue.versions(bus, path)
        entry = await catalogue.one(bus, path, version)
    render.rows([nouns.playbook(entry, entry.means(known.latest))], kind.columns, output, kind.name)
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
