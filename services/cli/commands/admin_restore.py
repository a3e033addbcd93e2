"""noetlctl admin restore: a backup into an empty broker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from services.cli.console import exits, render
from services.cli.console.exits import CliError
from services.cli.stack import context

if TYPE_CHECKING:
    from shared.bus.jetstream import JetStreamBus
    from shared.runtime.backup.archive import Manifest
    from shared.runtime.service.settings import Settings


@click.command("restore", epilog="Example: noetlctl admin restore /backups/monday --folder .noetl && noetlctl up")
@click.argument("backup", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False),
              help="Into the folder of a stack that is not running, and not there yet: `noetlctl up` goes on with it.")
@click.option("--replicas", type=click.IntRange(1, 5), default=1, show_default=True, help="Copies of each stream.")
@click.option("--check", is_flag=True, help="Only look whether the backup is whole.")
@render.option("table", "json", "yaml")
@context.option
def command(
    backup: Path, folder: Path | None, replicas: int, check: bool, output: str, context_file: Path | None
) -> int:
    """Take a backup back, into a new folder or into a broker that has no data and no services yet.

    Nothing is ever written over. The read model, snapshots and commands are built again when the services start.
    """
    from services.cli.console import run_async

    if folder is not None and context_file is not None:
        raise CliError("--folder and --context exclude each other", exits.USAGE)
    return run_async.run(_restore(backup, folder, replicas, check, output, context_file))


async def _restore(
    backup: Path, folder: Path | None, replicas: int, check: bool, output: str, context_file: Path | None
) -> int:
    from services.cli.commands.admin_backup import say, shape
    from shared.errors import Corrupt
    from shared.runtime.backup import archive, restore

    try:
        manifest = archive.read(backup)
        await asyncio.to_thread(archive.check, backup, manifest)
    except Corrupt as error:
        raise CliError(str(error), exits.INVALID) from None
    found: dict[str, Any] = {**shape(backup, manifest), "restored": not check, "into": None, "read_model": None}
    if not check:
        settings = None if folder is not None else context.find(context_file)
        place = _embedded(folder, manifest) if folder is not None else _running(settings, manifest)
        async with place as (bus, into):
            await restore.take_back(bus, backup, manifest, replicas=replicas, say=say)
            await _make_the_rest(bus, settings, manifest, replicas)
            found |= {"into": into, "read_model": await _read_model(settings)}
    render.document(found, output, "folder", lambda: click.echo(_text(found)))
    return exits.OK


@asynccontextmanager
async def _embedded(folder: Path, manifest: "Manifest") -> "AsyncIterator[tuple[JetStreamBus, str]]":
    """A server on the folder, for as long as it takes. The folder is held, so no stack can start in it."""
    from shared.bus import jetstream, topology
    from shared.runtime.embedded import orphan_server
    from shared.runtime.embedded.nats_server import NatsServer
    from shared.runtime.embedded.stack_folder import held

    if manifest.partitions != topology.PARTITIONS:
        raise CliError(f"the backup has {manifest.partitions} partitions; `noetlctl up` runs {topology.PARTITIONS}")
    with held(folder) as home:
        if (home / "postgres").exists():
            raise CliError(f"{home} has a read model of another log: give a new folder")
        orphan_server.end(home / "nats")
        server = NatsServer(home / "nats", own_session=True)
        await asyncio.to_thread(server.start)
        try:
            orphan_server.remember(server.folder, server.pid)
            bus = await jetstream.connect(server.url_for("admin"), name="noetl-restore")
            try:
                yield bus, str(home)
            finally:
                await bus.close()
        finally:
            await asyncio.to_thread(server.stop)
            orphan_server.forget(server.folder)


@asynccontextmanager
async def _running(settings: "Settings | None", manifest: "Manifest") -> "AsyncIterator[tuple[JetStreamBus, str]]":
    from services.cli.doctor import worker_beats
    from services.cli.doctor.target import bare
    from shared.bus.jetstream import JetStreamBus

    assert settings is not None
    if manifest.partitions != settings.partitions:
        raise CliError(f"the backup has {manifest.partitions} partitions: set NOETL_PARTITIONS={manifest.partitions}")
    async with context.connected(settings) as bus:
        assert isinstance(bus, JetStreamBus)
        there = sorted(instance for instances in (await worker_beats.members(bus)).values() for instance in instances)
        if there:
            why = "they would decide on half a log: stop them, or give --folder"
            raise CliError(f"services are running ({', '.join(there)}): {why}", exits.CONFLICT)
        yield bus, bare(settings.nats_url)


async def _make_the_rest(
    bus: "JetStreamBus", settings: "Settings | None", manifest: "Manifest", replicas: int
) -> None:
    """What a backup does not hold: consumers, and buckets that fill again by themselves."""
    from msgspec.structs import replace

    from shared.bus import streams, topology
    from shared.runtime.service.provision import provision
    from shared.runtime.service.settings import Settings
    from shared.runtime.stores import retention

    pools = settings.pools if settings is not None else ("default",)
    ages = await retention.ages(bus, settings.retention if settings is not None else ())
    said = replace(provision(settings or Settings()), replicas=replicas, max_age_s=ages)
    await streams.ensure(bus, topology.wanted(pools, manifest.partitions), said, apply=True)


async def _read_model(settings: "Settings | None") -> str:
    """`other`: PostgreSQL holds what was projected from another log."""
    from services.cli.doctor import database

    if settings is None or not settings.postgres_dsn:
        return "none"
    try:
        return "other" if (await database.read(settings.postgres_dsn)).cursors else "empty"
    except database.AWAY:
        return "unknown"


def _text(found: dict[str, Any]) -> str:
    messages = sum(stream["messages"] for stream in found["streams"])
    what = f"{len(found['streams'])} streams, {messages} messages, made {found['made_at']}"
    if not found["restored"]:
        return f"the backup is whole: {what}"
    rest = "" if found["secrets"] else "\nIt has no credentials: store them again (`noetlctl credential`)."
    if found["read_model"] in ("other", "unknown"):
        rest += "\nRun `noetlctl admin rebuild-projection --yes` when the services run."
    return f"restored {what} into {found['into']}{rest}"
