"""noetlctl signal: what `kind: signal` waits for, such as a person's approval."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from services.cli import context, control, exits, inputs, options, render

if TYPE_CHECKING:
    from shared.events.request import Control


@click.command("signal", epilog="Example: noetlctl signal 4f1c… approval --set approved=true")
@click.argument("execution")
@click.argument("name")
@options.payload
@options.sets
@render.option()
@context.option
def command(
    execution: str, name: str, payload: str | None, sets: tuple[str, ...], output: str, context_file: Path | None
) -> int:
    """Give an execution the signal it waits for, or will wait for."""
    asked = inputs.payload(payload, sets)
    from services.cli import aio
    from shared.events.request import Control

    return aio.run(_signal(Control(execution, by=control.me(), name=name, payload=asked), output, context_file))


async def _signal(asked: "Control", output: str, context_file: Path | None) -> int:
    from services.cli.output import line
    from shared.events import subjects

    settings = context.find(context_file)
    async with context.connected(settings) as bus:
        await control.send(bus, settings, subjects.SIGNAL, asked)
    line({"execution_id": asked.execution_id, "status": "accepted"}, output)
    return exits.OK
