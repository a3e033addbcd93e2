"""noetlctl dlq: what no service could use, and what becomes of it."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from services.cli.console import exits, options, render, times
from services.cli.console.confirm import confirmed
from services.cli.console.exits import CliError
from services.cli.playbooks import inputs
from services.cli.stack import context
from shared.events.letter import short

if TYPE_CHECKING:
    from shared.bus.dead_letters import Letter
    from shared.bus.ports import Bus
    from shared.events.request import Control, Request
    from shared.runtime.service.settings import Settings

MAX_LISTED = 10_000
MAX_ABOUT = 80  # characters of a subject in the list
SEQ = click.argument("seq", type=click.IntRange(min=1))
COLUMNS = (
    render.Column("SEQ", "seq"), render.Column("TIME", lambda row: times.shown(row["time"])),
    render.Column("ORIGIN", "origin"),
    render.Column("ABOUT", lambda row: short(row["about"], MAX_ABOUT)), render.Column("PLACE", "place", wide=True),
    render.Column("BYTES", "bytes", wide=True), render.Column("REASON", "reason"),
)


@click.group("dlq", epilog="Example: noetlctl dlq list")
def command() -> None:
    """See, replay or drop what no service could use: requests, records, messages of triggers, times of schedules."""


@command.command("list", epilog="Example: noetlctl dlq list --origin requests -o json")
@click.option("--origin", default="", help="requests, triggers, schedules, records, router or workers alone.")
@click.option("--limit", type=click.IntRange(1, MAX_LISTED), default=100, show_default=True, help="The latest ones.")
@render.option()
@context.option
def list_(origin: str, limit: int, output: str, context_file: Path | None) -> int:
    """List dead letters, the latest last."""
    from services.cli.console import run_async

    return run_async.run(_list(origin, limit, output, context_file))


async def _list(origin: str, limit: int, output: str, context_file: Path | None) -> int:
    from services.cli.admin import letters as admin_letters
    from shared.bus import dead_letters

    async with context.connected(context.find(context_file)) as bus:
        found = await dead_letters.latest(bus, limit, origin)
    render.rows([admin_letters.row(letter) for letter in found], COLUMNS, output, "seq")
    return exits.OK


@command.command("show", epilog="Example: noetlctl dlq show 7 -o yaml")
@SEQ
@render.option()
@context.option
def show(seq: int, output: str, context_file: Path | None) -> int:
    """Show a dead letter with what is kept of the message: the first 4 KiB."""
    from services.cli.console import run_async

    return run_async.run(_show(seq, output, context_file))


async def _show(seq: int, output: str, context_file: Path | None) -> int:
    from services.cli.admin import letters as admin_letters

    async with context.connected(context.find(context_file)) as bus:
        found = admin_letters.whole(await _letter(bus, seq))
    render.document(found, output, "seq", lambda: render.fields({**found, "time": times.shown(found["time"])}))
    return exits.OK


@command.command("replay", epilog="Examples: noetlctl dlq replay 7   noetlctl dlq replay 7 --body @mended.json --drop")
@SEQ
@click.option("--body", metavar="TEXT|@FILE|-", help="Instead of what was in it.")
@click.option("--drop", "drop_it", is_flag=True, help="Drop the letter once the broker has it again.")
@options.dry_run
@render.option()
@context.option
def replay(
    seq: int, body: str | None, drop_it: bool, dry_run: bool, output: str, context_file: Path | None
) -> int:
    """Publish a buried request again; of a trigger's message or a schedule's time, what they make of it now.

    The message is taken from where it stands; if it is gone and the letter has only its beginning, give it with --body.
    What would be buried again is refused with exit code 3. A record cannot be replayed.
    """
    from services.cli.console import run_async

    text = inputs.text(body, "--body") if body is not None else None
    return run_async.run(_replay(seq, text, drop_it, dry_run, output, context_file))


async def _replay(
    seq: int, body: str | None, drop_it: bool, dry_run: bool, output: str, context_file: Path | None
) -> int:
    from services.cli.admin import letters as admin_letters
    from shared.bus import dead_letters

    settings = context.find(context_file)
    async with context.connected(settings) as bus:
        subject, asked = await admin_letters.again(bus, await _letter(bus, seq), body)
        execution_id, status = asked.execution_id, "would replay"
        if not dry_run:
            execution_id, status = await _ask(bus, settings, subject, asked)
            if drop_it:
                await dead_letters.drop(bus, seq)
    done = {"seq": seq, "execution_id": execution_id, "status": status, "subject": subject,
            "dropped": drop_it and not dry_run}
    render.document(done, output, "execution_id", lambda: click.echo(f"{seq}: {status} {execution_id}".rstrip()))
    return exits.OK


async def _ask(bus: "Bus", settings: "Settings", subject: str, asked: "Request | Control") -> tuple[str, str]:
    """The execution it is about, and what the router says."""
    from services.cli.executions import control_requests, requests
    from shared.events.request import Request

    if isinstance(asked, Request):
        answer = await requests.start(bus, asked, context.inbox(settings), settings.partitions, subject=subject)
        return answer.execution_id, answer.status
    return await control_requests.send(bus, settings, subject, asked), "accepted"


@command.command("drop", epilog="Example: noetlctl dlq drop 7 --yes")
@SEQ
@options.yes
@render.option()
@context.option
def drop(seq: int, yes: bool, output: str, context_file: Path | None) -> int:
    """Delete a dead letter for good."""
    from services.cli.console import run_async

    return run_async.run(_drop(seq, yes, output, context_file))


async def _drop(seq: int, yes: bool, output: str, context_file: Path | None) -> int:
    from services.cli.admin import letters as admin_letters
    from shared.bus import dead_letters

    async with context.connected(context.find(context_file)) as bus:
        shown = admin_letters.row(await _letter(bus, seq))
        confirmed(f"drop letter {seq} of {shown['origin']} ({shown['reason']})", yes)
        await dead_letters.drop(bus, seq)
    done = {"seq": seq, "status": "dropped"}
    render.document(done, output, "seq", lambda: click.echo(f"dropped {seq}"))
    return exits.OK


async def _letter(bus: "Bus", seq: int) -> "Letter":
    from shared.bus import dead_letters

    found = await dead_letters.one(bus, seq)
    if found is None:
        raise CliError(f"no dead letter {seq} (`noetlctl dlq list` shows them)", exits.NOT_FOUND)
    return found
