"""noetlctl why: exactly what an execution waits for."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from services.cli.console import exits, render
from services.cli.console.exits import CliError
from services.cli.stack import context

if TYPE_CHECKING:
    from services.cli.stack.context import Found
    from shared.answers.why.facts import Answer
    from shared.runtime.service.settings import Settings


@click.command("why", epilog="Example: noetlctl why 4f1c…")
@click.argument("execution")
@render.option("text", "wide", "json", "yaml", "jsonl", "name")
@context.option
def command(execution: str, output: str, context_file: Path | None) -> int:
    """Say why an execution is not running: everything it waits for, with the values that decide.

    Exits 0 whatever the answer is, 7 when nobody has heard of the execution.
    """
    from services.cli.console import run_async

    return run_async.run(_why(execution, output, context.locate(context_file)))


async def _why(execution_id: str, output: str, found: "Found") -> int:
    from services.cli.console.progress import patiently
    from services.cli.why import text as why_text

    answer = await patiently(answered(execution_id, found.settings, found.folder), "asking around")
    render.document(why_text.shape(answer), output, "execution_id", lambda: why_text.tell(answer, output == "wide"))
    return exits.OK


async def answered(execution_id: str, settings: "Settings", folder: Path | None = None) -> "Answer":
    """`folder` is that of an embedded stack."""
    from services.cli.stack.broker_files import BrokerFiles
    from services.cli.why.questions import Asker
    from shared.bus.jetstream import JetStreamBus

    async with context.connected(settings) as bus:
        if not isinstance(bus, JetStreamBus):
            raise CliError("why asks a NATS server")
        refusal = await BrokerFiles(folder).refusal(bus)
        answer = await Asker(bus, settings.partitions, refusal=refusal).answer(execution_id)
    if answer is None:
        what = f"no execution {execution_id} in the log, nor a request for it (`noetlctl get` lists the recent ones)"
        raise CliError(what, exits.NOT_FOUND)
    return answer
