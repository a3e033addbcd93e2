"""noetlctl events: every event of an execution with its full envelope, from the log."""

import json
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from services.cli import context, exits
from services.cli.exits import CliError

if TYPE_CHECKING:
    from shared.events.record import Record


@click.command("events")
@click.argument("execution")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["jsonl", "table"]),
    default="jsonl",
    show_default=True,
    help="One JSON object per event, or columns for people.",
)
@click.option(
    "--names",
    type=click.Choice(["canonical", "formal"]),
    default="canonical",
    show_default=True,
    help="Formal: event_type as FS has it, and name as FX has it.",
)
@click.option("--follow", is_flag=True, help="Wait for more, until the execution is over.")
@context.option
def command(execution: str, output: str, names: str, follow: bool, context_file: Path | None) -> int:
    """Print the events of an execution in log order."""
    from services.cli import aio

    return aio.run(_events(execution, _Printer(output, names == "formal"), follow, context_file))


async def _events(execution_id: str, printer: "_Printer", follow: bool, context_file: Path | None) -> int:
    from services.cli import watch
    from shared.engine.summary import Summary

    settings = context.find(context_file)
    async with context.connected(settings) as bus:
        if not follow:
            records = await watch.history(bus, execution_id, settings.partitions)
            if not records:
                raise CliError(f"no execution {execution_id} in the log (`noetlctl get` lists the recent ones)")
            printer.show(records)
            return exits.OK
        summary = Summary(execution_id)
        async with aclosing(watch.follow(bus, execution_id, settings.partitions)) as batches:
            async for batch in batches:
                printer.show(batch)
                for record in batch:
                    summary.apply(record)
                if summary.over:
                    break
    return exits.OK


class _Printer(NamedTuple):
    output: str
    formal: bool

    def show(self, records: "list[Record]") -> None:
        from shared.events.aliases import formal
        from shared.events.record import envelopes

        for record in records:
            for envelope in envelopes(record):
                shown = formal(envelope) if self.formal else envelope
                click.echo(json.dumps(shown, ensure_ascii=False) if self.output == "jsonl" else _row(shown))


def _row(envelope: dict[str, Any]) -> str:
    about = envelope["task_run_id"] or envelope["step_run_id"] or ""
    return f"{envelope['ts']}  {envelope['event_type']:<30} {envelope['status']:<12} {about}".rstrip()
