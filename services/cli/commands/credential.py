"""noetlctl credential: what `auth: NAME` of a task resolves to."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from services.cli import context, exits, inputs, render
from services.cli.exits import CliError

if TYPE_CHECKING:
    from shared.bus.ports import Bus

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@click.command("credential", epilog="Examples: noetlctl credential pg=@pg.json   noetlctl get credentials")
@click.argument("assignment", metavar="NAME=JSON|NAME=@FILE")
@render.option()
@context.option
def command(assignment: str, output: str, context_file: Path | None) -> int:
    """Store a credential for tools to use; a stored one is replaced."""
    from services.cli import aio

    name, value = inputs.credential(assignment)
    return aio.run(_store(name, value, output, context_file))


async def _store(name: str, value: dict[str, Any], output: str, context_file: Path | None) -> int:
    async with context.connected(context.find(context_file)) as bus:
        await store(bus, name, value)
    shown = {"name": name, "status": "stored"}
    render.document(shown, output, "name", lambda: click.echo(f"stored credential {name}"))
    return exits.OK


async def store(bus: "Bus", name: str, value: dict[str, Any]) -> None:
    import msgspec

    from shared.bus import topology

    if not NAME.fullmatch(name):
        raise CliError(f"credential name {name!r} may hold letters, digits, _ and -, at most 64", exits.USAGE)
    await bus.kv_put(topology.KEYCHAIN, name, msgspec.json.encode(value))
