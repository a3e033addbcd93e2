"""noetlctl register: a playbook into the catalogue."""

from pathlib import Path

import click

from services.cli import context, exits


@click.command("register")
@click.argument("file", type=click.Path(path_type=Path))
@context.option
def command(file: Path, context_file: Path | None) -> int:
    """Store a playbook in the catalogue. One that cannot run is refused with exit code 3."""
    from services.cli import aio

    return aio.run(_register(file, context_file))


async def _register(file: Path, context_file: Path | None) -> int:
    from services.cli import playbooks
    from shared.runtime import catalog

    playbook = playbooks.valid(file)
    async with context.connected(context.find(context_file)) as bus:
        entry = await catalog.register(bus, playbook.source, playbook.plan)
    version = f" version {entry.version}" if entry.version else ""
    click.echo(f"registered {entry.path}{version} ({entry.digest[:12]})")
    return exits.OK
