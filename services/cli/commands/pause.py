"""noetlctl pause: runs go on to their end, nothing follows."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from services.cli.console import render
from services.cli.executions import bulk, control_requests
from services.cli.stack import context
from shared.events import subjects

if TYPE_CHECKING:
    from shared.bus.ports import Bus
    from shared.runtime.service.settings import Settings


@click.command("pause", epilog="Examples: noetlctl pause 4f1c… --reason maintenance   "
               "noetlctl pause --path 'etl/*' --yes")
@bulk.arguments
@click.option("--reason", default="", help="Kept in the log.")
@render.option()
@context.option
def command(what: bulk.Chosen, reason: str, output: str, context_file: Path | None) -> int:
    """Let nothing new start in an execution.

    Several may be named; or they are chosen by what they are, of those that run unless --status says otherwise.
    """
    from services.cli.console import run_async

    async def ask(bus: "Bus", settings: "Settings", name: str) -> bulk.Row:
        from shared.events.request import Control

        await control_requests.send(bus, settings, subjects.PAUSE, Control(name, reason, control_requests.me()))
        return {"execution_id": name, "status": "accepted", "error": None}

    wish = bulk.Wish("pause", subjects.PAUSE, ("running",), ask)
    return run_async.run(bulk.carry_out(wish, what, output, context_file))
