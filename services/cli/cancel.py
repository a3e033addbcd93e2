"""noetlctl cancel: stops an execution, its children and what its workers do."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from services.cli import context, control, exits, options
from services.cli.exits import CliError

if TYPE_CHECKING:
    from shared.events.request import Control


@click.command("cancel", epilog="Example: noetlctl cancel 4f1c… --reason 'wrong input' --wait")
@click.argument("execution")
@click.option("--reason", default="", help="Kept in the log.")
@click.option("--grace", type=click.FloatRange(0, 300), default=10.0, show_default=True, metavar="S",
              help="How long what runs may take to stop.")
@click.option("--wait", is_flag=True, help="Until nothing runs any more.")
@options.timeout
@context.option
def command(
    execution: str, reason: str, grace: float, wait: bool, timeout: float | None, context_file: Path | None
) -> int:
    """Stop an execution and everything it started."""
    from services.cli import aio
    from shared.events.request import Control

    asked = Control(execution, reason, control.me(), grace)
    return aio.run(_cancel(asked, wait, timeout, context_file))


async def _cancel(asked: "Control", wait: bool, timeout: float | None, context_file: Path | None) -> int:
    from services.cli import display, requests
    from services.cli.output import line
    from shared.events import subjects

    settings = context.find(context_file)
    async with context.connected(settings) as bus:
        await control.send(bus, settings, subjects.CANCEL, asked)
        if not wait:
            line({"execution_id": asked.execution_id, "status": "accepted"}, "text")
            return exits.OK
        try:
            async with asyncio.timeout(timeout):
                summary = await requests.finish(bus, asked.execution_id, settings.partitions, display.choose())
        except TimeoutError:
            raise CliError(f"{asked.execution_id} still runs after {timeout:g} s", exits.TIMED_OUT) from None
    click.echo(f"{asked.execution_id} {summary.status}")
    return exits.OK
