"""One wish for one execution or for many, by their names or by what they are. A row for each says what became of it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from services.cli.console import execution_ids, exits, options, progress, render
from services.cli.console.confirm import confirmed
from services.cli.console.exits import CliError
from services.cli.executions import control_requests, selection
from services.cli.executions.selection import MAX_SELECTED, Command, Selection
from services.cli.stack import context
from shared.errors import NoetlError
from shared.events import subjects

if TYPE_CHECKING:
    from shared.bus.ports import Bus
    from shared.runtime.service.settings import Settings

AT_ONCE = 16
Row = dict[str, Any]
COLUMNS = (
    render.Column("EXECUTION", "execution_id"),
    render.Column("STATUS", "status", colour=True),
    render.Column("ERROR", "error"),
)


class Chosen(NamedTuple):
    """What the command line says about which executions are meant, and how careful to be."""

    names: tuple[str, ...]
    selection: Selection
    dry_run: bool
    yes: bool


def named(row: Row) -> str:
    return str(row["execution_id"])


class Wish(NamedTuple):
    """`verb` is what is done, by a request to `subject`; without --status, executions in `statuses` are meant.
    `ask` makes the row of one."""

    verb: str
    subject: str
    statuses: tuple[str, ...]
    ask: "Callable[[Bus, Settings, str], Awaitable[Row]]"
    text: Callable[[Row], str] = named

    def row(self, name: str, status: str, error: str | None = None) -> Row:
        """For a request that had no effect; a rerun makes another execution `of` it."""
        if self.subject == subjects.RERUN:
            return {"execution_id": "", "status": status, "of": name, "error": error}
        return {"execution_id": name, "status": status, "error": error}


def arguments(command: Command) -> Command:
    """Names or a selection, `--dry-run` and `--yes`: the command gets a Chosen, `what`."""

    @wraps(command)
    def wrapped(*, executions: tuple[str, ...], chosen: Selection, dry_run: bool, yes: bool, **others: Any) -> int:
        if bool(executions) == (not chosen.says_nothing):
            raise click.UsageError("name executions, or choose them with -l, --status, --path or --since")
        if len(executions) > MAX_SELECTED:
            raise click.UsageError(f"{len(executions)} executions: at most {MAX_SELECTED} in one call")
        return command(what=Chosen(tuple(dict.fromkeys(executions)), chosen, dry_run, yes), **others)

    made: Command = wrapped
    for add in (options.yes, options.dry_run, selection.options, execution_ids.several):
        made = add(made)
    return made


async def carry_out(wish: Wish, what: Chosen, output: str, context_file: Path | None) -> int:
    """Exit code 1 when something went wrong for some; with one name, the code of what did."""
    settings = context.find(context_file)
    names = what.names or await _selected(wish, what.selection, settings)
    single = len(what.names) == 1
    if what.dry_run:
        wish = wish._replace(ask=_rehearsal(wish), text=lambda row: f"{row['status']} {row.get('of') or named(row)}")
    elif not what.names:
        many = f"{wish.verb} {len(names)} execution{'s' if len(names) != 1 else ''}"
        confirmed(many, what.yes or not names, " (--dry-run lists them)")
    async with context.connected(settings) as bus:
        if single:
            row = await wish.ask(bus, settings, names[0])
            _tell([row], True, output, wish.text)
            return exits.OK
        rows = await _each(wish, bus, settings, names)
    _tell(rows, False, output, wish.text)
    wrong = sum(row["error"] is not None for row in rows)
    if not rows:
        click.echo("no execution is meant", err=True)
    elif not what.dry_run:
        click.echo(f"{wish.verb}: {len(rows) - wrong} of {len(rows)}", err=True)
    return exits.ERROR if wrong else exits.OK


def _tell(rows: Sequence[Row], single: bool, output: str, text: Callable[[Row], str]) -> None:
    if single and render.is_text(output):
        click.echo(text(rows[0]))
    elif single:
        render.document(rows[0], output, "execution_id", lambda: None)
    else:
        of = (render.Column("OF", "of"),) if any("of" in row for row in rows) else ()
        rows = [row for row in rows if output != "name" or row["execution_id"]]
        render.rows(rows, (*COLUMNS[:2], *of, *COLUMNS[2:]), output, "execution_id")


def _rehearsal(wish: Wish) -> "Callable[[Bus, Settings, str], Awaitable[Row]]":
    """Looks whether it could be done, and does nothing."""

    async def ask(bus: "Bus", settings: "Settings", name: str) -> Row:
        await control_requests.check(bus, settings, wish.subject, name)
        return wish.row(name, f"would {wish.verb}")

    return ask


async def _selected(wish: Wish, found: Selection, settings: "Settings") -> tuple[str, ...]:
    from services.cli.executions import readmodel

    wanted = found if found.statuses else found._replace(statuses=wish.statuses)
    rows = await readmodel.executions(settings.postgres_dsn, wanted, MAX_SELECTED + 1)
    if len(rows) > MAX_SELECTED:
        raise CliError(f"over {MAX_SELECTED} executions are meant: choose fewer, or call it several times", exits.USAGE)
    return tuple(row["execution_id"] for row in rows)


async def _each(wish: Wish, bus: "Bus", settings: "Settings", names: Sequence[str]) -> list[Row]:
    turns = asyncio.Semaphore(AT_ONCE)
    with progress.bar(wish.verb, len(names)) as done:

        async def one(name: str) -> Row:
            async with turns:
                try:
                    row = await wish.ask(bus, settings, name)
                except NoetlError as error:
                    row = wish.row(name, "failed", str(error))
                done()
                return row

        return list(await asyncio.gather(*(one(name) for name in names)))
