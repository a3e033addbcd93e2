"""noetlctl credential: what `auth: NAME` of a task resolves to."""

from pathlib import Path
from typing import Any

import click

from services.cli.console import exits, render
from services.cli.playbooks import inputs
from services.cli.stack import context


@click.command("credential", epilog="Examples: noetlctl credential pg=@pg.json   noetlctl get credentials")
@click.argument("assignment", metavar="NAME=JSON|NAME=@FILE")
@render.option()
@context.option
def command(assignment: str, output: str, context_file: Path | None) -> int:
    """Store a credential for tools to use; a stored one is replaced."""
    from services.cli.console import run_async

    name, value = inputs.credential(assignment)
    return run_async.run(_store(name, value, output, context_file))


async def _store(name: str, value: dict[str, Any], output: str, context_file: Path | None) -> int:
    from shared.runtime.stores import credentials

    async with context.connected(context.find(context_file)) as bus:
        await credentials.store(bus, name, value)
    shown = {"name": name, "status": "stored"}
    render.document(shown, output, "name", lambda: click.echo(f"stored credential {name}"))
    return exits.OK
