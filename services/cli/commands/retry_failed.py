"""noetlctl retry-failed: `rerun --failed` by its own name."""

from pathlib import Path

import click

from services.cli.commands import rerun
from services.cli.console import options, render
from services.cli.executions import bulk
from services.cli.stack import context


@click.command("retry-failed", epilog="Examples: noetlctl retry-failed 4f1c… --wait   "
               "noetlctl retry-failed -l team=data --since 1d --yes")
@bulk.arguments
@rerun.WAIT
@render.option()
@options.timeout
@context.option
def command(
    what: bulk.Chosen, wait: bool, output: str, timeout: float | None, context_file: Path | None,
) -> int:
    """Run what failed in an execution again, as a new execution; what was done is not done twice.

    Several may be named; or they are chosen by what they are, of those that failed or were cancelled.
    """
    return rerun.again(rerun.Start(), what, ("failed", "cancelled"), wait, output, timeout, context_file)
