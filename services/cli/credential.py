"""noetlctl credential: what `auth: NAME` of a task resolves to."""

import re
from pathlib import Path
from typing import Any

import click
import msgspec

from services.cli import aio, context, exits, inputs
from services.cli.exits import CliError
from shared.bus import topology
from shared.bus.ports import Bus

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@click.command("credential")
@click.argument("assignment", metavar="NAME=JSON|NAME=@FILE")
@context.option
def command(assignment: str, context_file: Path | None) -> int:
    """Store a credential for tools to use; a stored one is replaced."""
    name, value = inputs.credential(assignment)
    return aio.run(_store(name, value, context_file))


async def _store(name: str, value: dict[str, Any], context_file: Path | None) -> int:
    async with context.connected(context.find(context_file)) as bus:
        await store(bus, name, value)
    click.echo(f"stored credential {name}")
    return exits.OK


async def store(bus: Bus, name: str, value: dict[str, Any]) -> None:
    if not NAME.fullmatch(name):
        raise CliError(f"credential name {name!r} may hold letters, digits, _ and -, at most 64", exits.USAGE)
    await bus.kv_put(topology.KEYCHAIN, name, msgspec.json.encode(value))
