"""noetlctl rerun: a new execution that takes over what an earlier one has."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from services.cli import context, control, exits, options
from services.cli.exits import CliError

if TYPE_CHECKING:
    from shared.events.request import Control


@click.command("rerun", epilog="Examples: noetlctl rerun 4f1c… --from load   noetlctl rerun 4f1c… --failed --wait")
@click.argument("execution")
@click.option("--from", "step", metavar="STEP", help="Everything as it was when this step was last entered.")
@click.option("--failed", is_flag=True, help="Everything as it was in the end; only what failed runs again.")
@click.option("--wait", is_flag=True, help="Follow the new execution to its end; exit code 4 when it fails.")
@options.output
@options.timeout
@context.option
def command(
    execution: str, step: str | None, failed: bool, wait: bool, output: str, timeout: float | None,
    context_file: Path | None,
) -> int:
    """Start a new execution from a step of an earlier one, or from what failed in it."""
    from services.cli import aio
    from shared.events.request import Control

    if bool(step) == failed:
        raise CliError("say where to begin: --from STEP, or --failed", exits.USAGE)
    return aio.run(_rerun(Control(execution, by=control.me(), name=step or ""), wait, output, timeout, context_file))


async def _rerun(
    asked: "Control", wait: bool, output: str, timeout: float | None, context_file: Path | None
) -> int:
    from services.cli import origins, requests
    from services.cli.output import line, show
    from shared.events import subjects

    settings = context.find(context_file)
    async with context.connected(settings) as bus:
        started = await control.send(bus, settings, subjects.RERUN, asked)
        if not wait:
            line({"execution_id": started, "status": "started"}, output)
            return exits.OK
        summary = await requests.finish_within(bus, started, settings.partitions, timeout)
        return await show(bus, summary, output, await origins.of(bus, summary.digest))
