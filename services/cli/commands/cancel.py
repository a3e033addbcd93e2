"""noetlctl cancel: stops executions, their children and what their workers do."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from services.cli.console import options, render
from services.cli.executions import bulk, control_requests, selection
from services.cli.stack import context
from shared.events import subjects

if TYPE_CHECKING:
    from shared.bus.ports import Bus
    from shared.runtime.service.settings import Settings


@click.command("cancel", epilog="Examples: noetlctl cancel 4f1c… --reason 'wrong input' --wait   "
               "noetlctl cancel -l team=data --since 1h --dry-run")
@bulk.arguments
@click.option("--reason", default="", help="Kept in the log.")
@click.option("--grace", type=click.FloatRange(0, 300), default=10.0, show_default=True, metavar="S",
              help="How long what runs may take to stop.")
@click.option("--wait", is_flag=True, help="Until nothing runs any more.")
@options.timeout
@render.option()
@context.option
def command(
    what: bulk.Chosen, reason: str, grace: float, wait: bool, timeout: float | None, output: str,
    context_file: Path | None,
) -> int:
    """Stop an execution and everything it started.

    Several may be named; or they are chosen by what they are, of those that still run unless --status says otherwise.
    """
    from services.cli.console import run_async

    async def ask(bus: "Bus", settings: "Settings", name: str) -> bulk.Row:
        from services.cli.executions import requests
        from shared.events.request import Control

        await control_requests.send(bus, settings, subjects.CANCEL, Control(name, reason, control_requests.me(), grace))
        status = "accepted"
        if wait:
            quiet = len(what.names) != 1
            ended = await requests.finish_within(
                bus, name, settings.partitions, timeout, quiet=quiet, stands=f"the cancel of {name} stands")
            status = ended.status
        return {"execution_id": name, "status": status, "error": None}

    wish = bulk.Wish("cancel", subjects.CANCEL, selection.LIVE, ask, _waited if wait else bulk.named)
    return run_async.run(bulk.carry_out(wish, what, output, context_file))


def _waited(row: bulk.Row) -> str:
    return f"{row['execution_id']} {row['status']}"
