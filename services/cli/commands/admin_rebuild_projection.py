"""noetlctl admin rebuild-projection: the read model, written anew from the log."""

import sys
from pathlib import Path
from typing import Any

import click

from services.cli.console import exits, options, render, screen
from services.cli.console.confirm import confirmed
from services.cli.console.exits import CliError
from services.cli.stack import context

COUNTS = """
SELECT (SELECT count(*) FROM noetl.execution) AS executions, (SELECT count(*) FROM noetl.event) AS events,
    (SELECT count(*) FROM noetl.corrupt) AS corrupt
"""
STEP = 0.1  # of the way: a line of progress where nothing can be rewritten


@click.command("rebuild-projection", epilog="Example: noetlctl admin rebuild-projection --yes")
@options.yes
@render.option("table", "json", "yaml")
@context.option
def command(yes: bool, output: str, context_file: Path | None) -> int:
    """Empty the read model in PostgreSQL and write it anew from the log.

    The engine goes on meanwhile; lists and queries are short of executions until it is done.
    """
    from services.cli.console import run_async

    settings = context.find(context_file)
    if not settings.postgres_dsn:
        raise CliError("there is no read model: set NOETL_POSTGRES_DSN")
    confirmed("empty the read model; lists are short until it is written anew", yes)
    return run_async.run(_rebuild(settings, output))


async def _rebuild(settings: Any, output: str) -> int:
    from services.cli.executions.readmodel import connected
    from shared.runtime.readmodel.rebuild import rebuild

    dsn = context.writing(settings)
    async with connected(dsn):
        pass  # the rebuild would wait for a database for ever
    async with context.connected(settings) as bus:
        await rebuild(bus, dsn, settings.partitions, Progress(settings.partitions))
    async with connected(dsn) as connection:
        counts = dict(await connection.fetchrow(COUNTS) or {})
        rows = await connection.fetch("SELECT partition, seq FROM noetl.cursor ORDER BY partition")
    found = {**counts, "partitions": [dict(row) for row in rows]}
    line = "rebuilt {executions} executions, {events} events; {corrupt} records could not be read".format(**counts)
    render.document(found, output, "executions", lambda: click.echo(line))
    return exits.OK


class Progress:
    """On stderr: one line that grows on a terminal, a line for every tenth elsewhere."""

    def __init__(self, partitions: int) -> None:
        self._partitions, self._told = partitions, -1.0

    def __call__(self, partition: int, seq: int, last: int) -> None:
        share = (partition + seq / max(1, last)) / self._partitions
        text = f"  partition {partition}: {seq} of {last} ({share:.0%})"
        if sys.stderr.isatty():
            click.echo(screen.control("\r") + text, err=True, nl=share >= 1.0)
        elif share >= min(1.0, self._told + STEP):
            self._told = share
            click.echo(text, err=True)
