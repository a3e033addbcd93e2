"""noetlctl events: every event of an execution with its full envelope, from the log."""

from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import click

from services.cli.console import execution_ids, exits, render, times
from services.cli.console.times import Moment
from services.cli.stack import archived, context
from services.cli.stack.broker_away import Patience


@click.command("events", epilog="Examples: noetlctl events 4f1c… -o table   "
               "noetlctl events 4f1c… --follow | jq .event_type   noetlctl events 4f1c… --archive /backups/monday")
@execution_ids.argument
@render.option("jsonl", "table", "json", "yaml", "name")
@click.option(
    "--names",
    type=click.Choice(["canonical", "formal"]),
    default="canonical",
    show_default=True,
    help="Formal: event_type as FS has it, name as FX has it, and every event that they have.",
)
@click.option("--since", type=Moment(), metavar="TIME", help="Since then: 2h ago, or 2026-11-16T10:00.")
@click.option("--follow", is_flag=True, help="Wait for more, until the execution is over.")
@archived.option
@context.option
def command(
    execution: str, output: str, names: str, since: datetime | None, follow: bool, archive_place: Path | None,
    context_file: Path | None,
) -> int:
    """Print the events of an execution in log order."""
    from services.cli.console import run_async

    if follow and output in ("json", "yaml"):
        raise click.UsageError("--follow prints event by event: take -o jsonl or table")
    if follow and archive_place is not None:
        raise click.UsageError("--follow waits for more, and an archive has no more")
    places = (context_file, archive_place)
    return run_async.run(_events(execution, Printer(output, since), names == "formal", follow, places))


async def _events(
    execution_id: str, printer: "Printer", formal: bool, follow: bool, places: tuple[Path | None, Path | None]
) -> int:
    from services.cli.executions import logbook, requests
    from services.cli.executions.named_events import Canonical, InFormal
    from shared.answers.history.summary import Summary

    async with archived.source(*places, Patience() if follow else None) as (bus, settings):
        names = InFormal(bus) if formal else Canonical()
        if not follow:
            book = await logbook.read(bus, execution_id, settings.partitions)
            printer.show(await names.of(book.entries))
            return exits.OK
        await requests.expect(bus, execution_id, settings.partitions)
        summary = Summary(execution_id)
        async with aclosing(logbook.follow(bus, execution_id, settings.partitions)) as batches:
            async for batch in batches:
                printer.show(await names.of(batch))
                for _, record in batch:
                    summary.apply(record)
                if summary.over:
                    break
    return exits.OK


class Printer(NamedTuple):
    output: str
    since: datetime | None = None

    def show(self, envelopes: list[dict[str, Any]]) -> None:
        found = [each for each in envelopes if self.since is None or times.parsed(each["ts"]) >= self.since]
        if self.output != "table":
            render.rows(found, (), self.output, "event_id")
            return
        for envelope in found:
            click.echo(_row(envelope))


def _row(envelope: dict[str, Any]) -> str:
    """Of one width, since more may follow."""
    about = envelope["task_run_id"] or envelope["step_run_id"] or ""
    at = times.shown(envelope["ts"], exact=True)
    line = f"{envelope['seq']:>8}  {at}  {envelope['event_type']:<30} {envelope['status']:<12} {about}"
    return line.rstrip()
