"""noetlctl resume: paused executions go on."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from services.cli import bulk, context, control, render
from shared.events import subjects

if TYPE_CHECKING:
    from shared.bus.ports import Bus
    from shared.runtime.settings import Settings


@click.command("resume", epilog="Examples: noetlctl resume 4f1c…   noetlctl resume --status paused --yes")
@bulk.arguments
@render.option()
@context.option
def command(what: bulk.Chosen, output: str, context_file: Path | None) -> int:
    """Let a paused execution go on.

    Several may be named; or they are chosen by what they are, of those that are paused unless --status says otherwise.
    """
    from services.cli import aio

    async def ask(bus: "Bus", settings: "Settings", name: str) -> bulk.Row:
        from shared.events.request import Control

        await control.send(bus, settings, subjects.RESUME, Control(name, by=control.me()))
        return {"execution_id": name, "status": "accepted", "error": None}

    return aio.run(bulk.carry_out(bulk.Wish("resume", subjects.RESUME, ("paused",), ask), what, output, context_file))
