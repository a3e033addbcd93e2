"""noetlctl get: one execution from the log, or the recent ones from the read model."""

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from services.cli import context, exits, options
from services.cli.exits import CliError

if TYPE_CHECKING:
    from shared.runtime.settings import Settings


@click.command("get")
@click.argument("execution", required=False)
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many to list.")
@options.output
@context.option
def command(execution: str | None, limit: int, output: str, context_file: Path | None) -> int:
    """Show an execution, or list the recent ones.

    One execution is read from the log, the list from PostgreSQL. Exits 0 whatever became of the execution.
    """
    from services.cli import aio

    settings = context.find(context_file)
    return aio.run(_one(execution, output, settings) if execution else _recent(limit, output, settings))


async def _one(execution_id: str, output: str, settings: "Settings") -> int:
    from services.cli import origins, watch
    from services.cli.display import Lines
    from services.cli.output import show
    from shared.engine.summary import Summary

    async with context.connected(settings) as bus:
        records = await watch.history(bus, execution_id, settings.partitions)
        if not records:
            raise CliError(f"no execution {execution_id} in the log (`noetlctl get` lists the recent ones)")
        summary = Summary(execution_id)
        for record in records:
            summary.apply(record)
        names = await origins.of(bus, summary.digest) if output == "text" else {}
        if output == "text":
            Lines(sys.stdout, names).update(summary)
        await show(bus, summary, output, names)
    return exits.OK


async def _recent(limit: int, output: str, settings: "Settings") -> int:
    from services.cli.readmodel import recent

    if not settings.postgres_dsn:
        raise CliError("the list comes from PostgreSQL: set NOETL_POSTGRES_DSN, or name an execution")
    rows = await recent(settings.postgres_dsn, limit)
    if output == "json":
        click.echo(json.dumps(rows, default=_plain, ensure_ascii=False))
        return exits.OK
    for row in rows:
        started = row["started_at"].astimezone().isoformat(" ", "seconds")
        name = f"{row['path']} {row['version']}".rstrip()
        click.echo(f"{row['execution_id']:<34} {row['status']:<10} {started}  {name}")
    return exits.OK


def _plain(value: Any) -> str:
    assert isinstance(value, datetime)
    return value.isoformat()
