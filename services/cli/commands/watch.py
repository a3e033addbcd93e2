"""noetlctl watch: an execution as it runs, to its end."""

from pathlib import Path

import click

from services.cli.console import execution_ids, options, render
from services.cli.stack import context
from services.cli.stack.broker_away import Patience


@click.command("watch", epilog="Example: noetlctl watch 4f1c… --timeout 600")
@execution_ids.argument
@render.option()
@options.timeout
@context.option
def command(execution: str, output: str, timeout: float | None, context_file: Path | None) -> int:
    """Watch an execution to its end: a live tree of its steps, loops and children.

    Ends as the execution does: 0 completed, 4 failed, 5 cancelled; 6 when --timeout is over before.
    """
    from services.cli.console import run_async

    return run_async.run(_watch(execution, output, timeout, context_file))


async def _watch(execution_id: str, output: str, timeout: float | None, context_file: Path | None) -> int:
    from services.cli.executions import generated_names, requests
    from services.cli.executions.result_output import show

    settings = context.find(context_file)
    async with context.connected(settings, Patience(timeout)) as bus:
        await requests.expect(bus, execution_id, settings.partitions)
        summary = await requests.finish_within(bus, execution_id, settings.partitions, timeout, family=True)
        return await show(bus, summary, output, await generated_names.of(bus, summary.digest))
