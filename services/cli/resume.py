"""noetlctl resume: a paused execution goes on."""

from pathlib import Path

import click

from services.cli import context, control


@click.command("resume", epilog="Example: noetlctl resume 4f1c…")
@click.argument("execution")
@context.option
def command(execution: str, context_file: Path | None) -> int:
    """Let a paused execution go on."""
    from services.cli import aio
    from shared.events import subjects
    from shared.events.request import Control

    return aio.run(control.ask(subjects.RESUME, Control(execution, by=control.me()), context_file))
