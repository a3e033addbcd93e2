"""noetlctl resume: paused executions go on."""

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


@click.command("resume", epilog="Examples: noetlctl resume 4f1c…   noetlctl resume --status paused --yes")
@bulk.arguments
@render.option()
@context.option
def command(what: bulk.Chosen, output: str, context_file: Path | None) -> int:
    """Let a paused execution go on.

    Several may be named; or they are chosen by what they are, of those that are paused unless --status says otherwise.
    """
    from services.cli.console import run_async

    async def ask(bus: "Bus", settings: "Settings", name: str) -> bulk.Row:
        from shared.events.request import Control

        await control_requests.send(bus, settings, subjects.RESUME, Control(name, by=control_requests.me()))
        return {"execution_id": name, "status": "accepted", "error": None}

    wish = bulk.Wish("resume", subjects.RESUME, ("paused",), ask)
    return run_async.run(bulk.carry_out(wish, what, output, context_file))
