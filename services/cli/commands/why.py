"""noetlctl why: exactly what an execution waits for, or what all of them wait for."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from services.cli.console import execution_ids, exits, render
from services.cli.console.exits import CliError
from services.cli.executions import selection
from services.cli.executions.selection import Selection
from services.cli.stack import context

if TYPE_CHECKING:
    from services.cli.stack.context import Found
    from shared.answers.why.facts import Answer
    from shared.runtime.service.settings import Settings

MAX_ASKED = 2000


@click.command("why", epilog="Examples: noetlctl why 4f1c…   noetlctl why --all --path 'etl/*'")
@execution_ids.optional
@click.option("--all", "all_", is_flag=True, help="Of all executions that are not over: what holds them, by cause.")
@click.option("--limit", type=click.IntRange(1, MAX_ASKED), default=500, show_default=True,
              help="With --all: how many executions to look at, the oldest first.")
@selection.options
@render.option("text", "wide", "json", "yaml", "jsonl", "name")
@context.option
def command(
    execution: str | None, all_: bool, limit: int, chosen: Selection, output: str, context_file: Path | None
) -> int:
    """Say why an execution is not running: everything it waits for, with the values that decide.

    With --all: what all live executions wait for, the same causes together. Exits 0 whatever the answer is, 7 when
    nobody has heard of the execution.
    """
    from services.cli.console import run_async

    if (execution is None) != all_:
        raise click.UsageError("name an execution, or say --all")
    if execution is not None:
        if not chosen.says_nothing:
            raise click.UsageError("-l, --status, --path, --since and --until choose among many: noetlctl why --all …")
        return run_async.run(_why(execution, output, context.locate(context_file)))
    return run_async.run(_why_all(chosen, limit, output, context.locate(context_file)))


async def _why(execution_id: str, output: str, found: "Found") -> int:
    from services.cli.console.progress import patiently
    from services.cli.why import text as why_text

    answer = await patiently(answered(execution_id, found.settings, found.folder), "asking around")
    render.document(why_text.shape(answer), output, "execution_id", lambda: why_text.tell(answer, output == "wide"))
    return exits.OK


async def _why_all(chosen: Selection, limit: int, output: str, found: "Found") -> int:
    from datetime import UTC, datetime

    from services.cli.why import held, many, many_text

    held_by = await held.look(found, chosen, limit)
    groups = many.grouped(held_by.standing)

    def tell() -> None:
        if not groups:
            click.echo("nothing is live" if not held_by.standing else "nothing waits")
        for line in many_text.lines(groups, datetime.now(UTC), output == "wide"):
            click.echo(line)

    if output in ("name", "jsonl"):
        rows = [many_text.row(one) for group in groups for one in group.standing]
        render.rows(rows, many_text.COLUMNS, output, "execution_id")
    else:
        shape = many_text.shape(groups, looked=len(held_by.standing), more=held_by.more)
        render.document(shape, output, "execution_id", tell)
    held_by.say()
    return exits.OK


async def answered(execution_id: str, settings: "Settings", folder: Path | None = None) -> "Answer":
    """`folder` is that of an embedded stack."""
    from services.cli.stack.broker_files import BrokerFiles
    from services.cli.why import own_processes
    from services.cli.why.questions import Asker
    from shared.bus.jetstream import JetStreamBus

    async with context.connected(settings) as bus:
        if not isinstance(bus, JetStreamBus):
            raise CliError("why asks a NATS server")
        refusal = await BrokerFiles(folder).refusal(bus)
        answer = await Asker(bus, settings.partitions, refusal=refusal).answer(execution_id)
        answer = own_processes.explained(answer, folder) if answer is not None else None
    if answer is None:
        what = f"no execution {execution_id} in the log, nor a request for it (`noetlctl get` lists the recent ones)"
        raise CliError(what, exits.NOT_FOUND)
    return answer
