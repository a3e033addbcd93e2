"""noetlctl execute: an execution of a registered playbook on a running stack."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from services.cli import context, exits, inputs, options

if TYPE_CHECKING:
    from shared.events.request import Request


@click.command("execute")
@click.argument("path")
@click.option("--version", default="", help="A version other than the latest registered.")
@options.payload
@options.sets
@click.option("--id", "key", default="", metavar="KEY", help="The same key again is the same execution.")
@click.option("--priority", type=click.IntRange(0, 9), help="9 goes first; that of the playbook unless given.")
@click.option("--wait", is_flag=True, help="Follow it to its end; exit code 4 when it fails.")
@options.output
@options.timeout
@context.option
def command(
    path: str,
    version: str,
    payload: str | None,
    sets: tuple[str, ...],
    key: str,
    priority: int | None,
    wait: bool,
    output: str,
    timeout: float | None,
    context_file: Path | None,
) -> int:
    """Start an execution of a registered playbook and print its id."""
    asked = inputs.payload(payload, sets)
    from services.cli import aio
    from shared.events.request import Request

    return aio.run(_execute(Request(path, version, asked, priority=priority), key, wait, output, timeout, context_file))


async def _execute(
    request: "Request", key: str, wait: bool, output: str, timeout: float | None, context_file: Path | None
) -> int:
    from services.cli import origins, requests
    from services.cli.output import line, show

    settings = context.find(context_file)
    async with context.connected(settings) as bus:
        answer = await requests.start(bus, request, context.inbox(settings), settings.partitions, key)
        if not wait:
            line({"execution_id": answer.execution_id, "status": answer.status}, output)
            return exits.OK
        summary = await requests.finish_within(bus, answer.execution_id, settings.partitions, timeout)
        return await show(bus, summary, output, await origins.of(bus, summary.digest))
