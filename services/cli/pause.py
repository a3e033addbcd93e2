"""noetlctl pause: runs go on to their end, nothing follows."""

from pathlib import Path

import click

from services.cli import context, control


@click.command("pause", epilog="Example: noetlctl pause 4f1c…")
@click.argument("execution")
@click.option("--reason", default="", help="Kept in the log.")
@context.option
def command(execution: str, reason: str, context_file: Path | None) -> int:
    """Let nothing new start in an execution."""
    from services.cli import aio
    from shared.events import subjects
    from shared.events.request import Control

    return aio.run(control.ask(subjects.PAUSE, Control(execution, reason, control.me()), context_file))
