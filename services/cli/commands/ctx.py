"""noetlctl ctx: the context of an execution, as it is or as it was."""

from pathlib import Path

import click

from services.cli.console import execution_ids, exits, options, render
from services.cli.stack import context


@click.command("ctx", epilog="Examples: noetlctl ctx 4f1c…   noetlctl ctx 4f1c… --at 1742 --path total")
@execution_ids.argument
@click.option("--at", "seq", type=click.IntRange(min=0), metavar="SEQ",
              help="As it was after this record of the log: `describe` and `logs -o json` tell sequences.")
@options.path
@options.raw
@render.option("json", "yaml")
@context.option
def command(execution: str, seq: int | None, path: str, raw: bool, output: str, context_file: Path | None) -> int:
    """Print the context of an execution, now or at an earlier point; values that lie outside the log are fetched."""
    from services.cli.console import run_async

    return run_async.run(_ctx(execution, seq, path, raw, output, context_file))


async def _ctx(
    execution_id: str, seq: int | None, path: str, raw: bool, output: str, context_file: Path | None
) -> int:
    from services.cli.executions import logbook, values
    from services.cli.executions.result_output import whole_ctx

    settings = context.find(context_file)
    async with context.connected(settings) as bus:
        book = await logbook.read(bus, execution_id, settings.partitions)
        found = await whole_ctx(bus, values.ctx_at(book.entries, seq))
    values.show(values.at(found, path), raw, output)
    return exits.OK
