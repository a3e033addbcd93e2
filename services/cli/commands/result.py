"""noetlctl result: the value an execution or one of its steps gave."""

from pathlib import Path
from typing import Any

import click

from services.cli.console import execution_ids, exits, options, render
from services.cli.stack import context


@click.command("result", epilog="Examples: noetlctl result 4f1c… --path 'rows[0].name' -r   "
               "noetlctl result 4f1c… --step load")
@execution_ids.argument
@click.option("--step", default="", help="Of this step's latest run that gave one; of the execution unless given.")
@options.path
@options.raw
@render.option("json", "yaml")
@context.option
def command(execution: str, step: str, path: str, raw: bool, output: str, context_file: Path | None) -> int:
    """Print the result of an execution or of a step; values that lie outside the log are fetched."""
    from services.cli.console import run_async

    return run_async.run(_result(execution, step, path, raw, output, context_file))


async def _result(
    execution_id: str, step: str, path: str, raw: bool, output: str, context_file: Path | None
) -> int:
    from services.cli.executions import logbook, values
    from services.cli.executions.result_output import whole

    settings = context.find(context_file)
    async with context.connected(settings) as bus:
        book = await logbook.read(bus, execution_id, settings.partitions)
        found: Any = await whole(bus, values.result_of(book.records, step, execution_id))
    values.show(values.at(found, path), raw, output)
    return exits.OK
