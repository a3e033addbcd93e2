"""noetlctl signal: what `kind: signal` waits for, such as a person's approval."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from services.cli.console import execution_ids, exits, options, render
from services.cli.executions import control_requests
from services.cli.playbooks import inputs
from services.cli.stack import context

if TYPE_CHECKING:
    from shared.events.request import Control


@click.command("signal", epilog="Example: noetlctl signal 4f1c… approval --set approved=true")
@execution_ids.argument
@click.argument("name")
@options.payload
@options.sets
@render.option()
@context.option
def command(
    execution: str, name: str, payload: str | None, sets: tuple[str, ...], output: str, context_file: Path | None
) -> int:
    """Give an execution the signal it waits for, or will wait for.

    Exits 7 when nothing in it waits for that name, 3 when the payload does not fit the schema of the wait, 8 when too
    many signals are there that no task has waited for.
    """
    asked = inputs.payload(payload, sets)
    from services.cli.console import run_async
    from shared.events.request import Control

    wanted = Control(execution, by=control_requests.me(), name=name, payload=asked)
    return run_async.run(_signal(wanted, output, context_file))


async def _signal(asked: "Control", output: str, context_file: Path | None) -> int:
    from services.cli.executions import logbook
    from services.cli.executions.result_output import line
    from services.cli.why import signals
    from shared.events import subjects

    settings = context.find(context_file)
    async with context.connected(settings) as bus:
        await control_requests.check(bus, settings, subjects.SIGNAL, asked.execution_id)
        book = await logbook.read(bus, asked.execution_id, settings.partitions)
        await signals.check(book, asked.name, asked.payload)
        await control_requests.send(bus, settings, subjects.SIGNAL, asked)
    line({"execution_id": asked.execution_id, "status": "accepted"}, output)
    return exits.OK
