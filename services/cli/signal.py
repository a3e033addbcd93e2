"""noetlctl signal: what `kind: signal` waits for, such as a person's approval."""

from pathlib import Path

import click

from services.cli import context, control, inputs, options


@click.command("signal", epilog="Example: noetlctl signal 4f1c… approval --set approved=true")
@click.argument("execution")
@click.argument("name")
@options.payload
@options.sets
@context.option
def command(
    execution: str, name: str, payload: str | None, sets: tuple[str, ...], context_file: Path | None
) -> int:
    """Give an execution the signal it waits for, or will wait for."""
    asked = inputs.payload(payload, sets)
    from services.cli import aio
    from shared.events import subjects
    from shared.events.request import Control

    wanted = Control(execution, by=control.me(), name=name, payload=asked)
    return aio.run(control.ask(subjects.SIGNAL, wanted, context_file))
