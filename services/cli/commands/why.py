"""noetlctl why: exactly what an execution waits for."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from services.cli.console import exits, render
from services.cli.console.exits import CliError
from services.cli.stack import context

if TYPE_CHECKING:
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

    return run_async.run(_why(execution, output, context.find(context_file)))


async def _why(execution_id: str, output: str, settings: "Settings") -> int:
    from services.cli.console.progress import patiently
    from services.cli.why import text as why_text

    answer = await patiently(answered(execution_id, settings), "asking around")
    render.document(why_text.shape(answer), output, "execution_id", lambda: why_text.tell(answer, output == "wide"))
    return exits.OK


async def answered(execution_id: str, settings: "Settings") -> "Answer":
    from services.cli.why.ask import Asker
    from shared.bus.jetstream import JetStreamBus

    async with context.connected(settings) as bus:
        if not isinstance(bus, JetStreamBus):
            raise CliError("why asks a NATS server")
        answer = await Asker(bus, settings.partitions).answer(execution_id)
    if answer is None:
        what = f"no execution {execution_id} in the log, nor a request for it (`noetlctl get` lists the recent ones)"
        raise CliError(what, exits.NOT_FOUND)
    return answer
