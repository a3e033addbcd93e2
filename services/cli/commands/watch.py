"""noetlctl watch: an execution as it goes; and its log as records, all there is or followed as it grows."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from services.cli import context, options, render

if TYPE_CHECKING:
    from shared.bus.ports import Bus
    from shared.events.record import Record


@click.command("watch", epilog="Example: noetlctl watch 4f1c… --timeout 600")
@click.argument("execution")
@render.option()
@options.timeout
@context.option
def command(execution: str, output: str, timeout: float | None, context_file: Path | None) -> int:
    """Watch an execution to its end: a live tree of its steps, loops and children.

    Ends as the execution does: 0 completed, 4 failed, 5 cancelled; 6 when --timeout is over before.
    """
    from services.cli import aio

    return aio.run(_watch(execution, output, timeout, context_file))


async def _watch(execution_id: str, output: str, timeout: float | None, context_file: Path | None) -> int:
    from services.cli import origins, requests
    from services.cli.output import show

    settings = context.find(context_file)
    async with context.connected(settings) as bus:
        await requests.expect(bus, execution_id, settings.partitions)
        summary = await requests.finish_within(bus, execution_id, settings.partitions, timeout, family=True)
        return await show(bus, summary, output, await origins.of(bus, summary.digest))


async def history(bus: "Bus", execution_id: str, partitions: int) -> "list[Record]":
    """All records there are; none when nobody knows the execution."""
    from services.cli import logbook

    return [record for _, record in await logbook.entries(bus, execution_id, partitions)]


async def follow(bus: "Bus", execution_id: str, partitions: int) -> "AsyncGenerator[list[Record], None]":
    """Batches of records in log order, from the first one on, without an end."""
    from services.cli import logbook

    async with aclosing(logbook.follow(bus, execution_id, partitions)) as batches:
        async for batch in batches:
            yield [record for _, record in batch]
