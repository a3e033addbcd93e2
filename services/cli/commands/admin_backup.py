"""noetlctl admin backup: the truth of a running stack, in a folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from services.cli.console import exits, render
from services.cli.stack import context

if TYPE_CHECKING:
    from shared.runtime.backup.archive import Manifest


@click.command("backup", epilog="Example: noetlctl admin backup /backups/monday")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--with-secrets", "secrets", is_flag=True, help="Credentials too, for whoever has the folder.")
@render.option("table", "json", "yaml")
@context.option
def command(folder: Path, secrets: bool, output: str, context_file: Path | None) -> int:
    """Write the log, and what cannot be derived from it, into a new folder.

    The stack goes on meanwhile. Snapshots, cursors, the command queue and the read model are left out: they follow from
    the log.
    """
    from services.cli.console import run_async

    return run_async.run(_backup(folder, secrets, output, context_file))


async def _backup(folder: Path, secrets: bool, output: str, context_file: Path | None) -> int:
    from shared.bus.jetstream import JetStreamBus
    from shared.runtime.backup import backup

    settings = context.find(context_file)
    async with context.connected(settings) as bus:
        assert isinstance(bus, JetStreamBus)
        manifest = await backup.save(bus, folder, settings.partitions, secrets=secrets, say=say)
    found = shape(folder, manifest)
    render.document(found, output, "folder", lambda: click.echo(_text(found)))
    return exits.OK


def say(line: str) -> None:
    click.echo(f"  {line}", err=True)


def shape(folder: Path, manifest: "Manifest") -> dict[str, Any]:
    streams = [
        {"stream": part.stream, "messages": part.messages, "last_seq": part.last_seq, "bytes": part.bytes,
         "sha256": part.sha256}
        for part in manifest.parts
    ]  # fmt: skip
    return {"folder": str(folder), "made_at": manifest.made_at, "version": manifest.version, "server": manifest.server,
            "partitions": manifest.partitions, "secrets": manifest.secrets,
            "bytes": sum(part.bytes for part in manifest.parts), "streams": streams}  # fmt: skip


def _text(found: dict[str, Any]) -> str:
    secrets = "with" if found["secrets"] else "without"
    what = f"{len(found['streams'])} streams, {found['bytes']} bytes, {secrets} credentials"
    return f"backed up {what}: {found['folder']}"
