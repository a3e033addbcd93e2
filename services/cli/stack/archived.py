"""A backup read in place of a stack. Its streams are restored into a NATS server of this command's own, in a folder
that goes with it: what wrote an archive reads it, and a command that reads a log reads this one as it reads any.
Nothing of it is decided further, since no service runs there."""

import asyncio
import errno
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from services.cli.console import exits
from services.cli.console.exits import CliError
from services.cli.stack import context

if TYPE_CHECKING:
    from services.cli.stack.broker_away import Patience
    from shared.bus.jetstream import JetStreamBus
    from shared.bus.ports import Bus
    from shared.runtime.backup.archive import Manifest
    from shared.runtime.service.settings import Settings

MAX_PARTITIONS = 4096
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
option = click.option(
    "--archive", "archive_place", metavar="FILE|FOLDER", type=click.Path(path_type=Path, exists=True),
    help="Read from a backup instead of a stack: its folder, its manifest.json, or a tar file of it.",
)


@asynccontextmanager
async def source(
    context_file: Path | None, archive_place: Path | None, patience: "Patience | None" = None
) -> "AsyncIterator[tuple[Bus, Settings]]":
    """Where a command reads: the stack, or an archive."""
    if archive_place is None:
        settings = context.find(context_file)
        async with context.connected(settings, patience) as bus:
            yield bus, settings
        return
    if context_file is not None:
        raise CliError("--archive and --context exclude each other", exits.USAGE)
    async with opened(archive_place) as found:
        yield found


@asynccontextmanager
async def opened(place: Path) -> "AsyncIterator[tuple[JetStreamBus, Settings]]":
    """Exit code 3 when it is not whole, with the place of what is wrong."""
    from shared.errors import Corrupt
    from shared.runtime.backup import archive

    with tempfile.TemporaryDirectory(prefix="noetl-archive-") as temporary:
        try:
            with _folder_of(place, Path(temporary) / "files") as folder:
                manifest = archive.read(folder)
                await asyncio.to_thread(archive.check, folder, manifest)
                _check_log(folder, manifest)
                async with _served(Path(temporary) / "nats", folder, manifest) as found:
                    yield found
        except Corrupt as error:
            raise CliError(f"{error} (the archive is refused as a whole)", exits.INVALID) from None


@contextmanager
def _folder_of(place: Path, room: Path) -> Iterator[Path]:
    """The files of a tar are unpacked; nothing but what a backup has is taken out of it."""
    from shared.errors import Corrupt
    from shared.runtime.backup.archive import MANIFEST, is_file_name

    if place.is_dir():
        yield place
    elif place.name == MANIFEST:
        yield place.parent
    else:
        room.mkdir(mode=0o700)
        try:
            with tarfile.open(place) as packed:
                for member in packed:
                    member.name = Path(member.name).name
                    if member.isfile() and (member.name == MANIFEST or is_file_name(member.name)):
                        packed.extract(member, room, filter="data")
        except OSError as error:
            if error.errno in NO_ROOM:
                raise _no_room(str(error)) from None
            raise Corrupt(f"{place} is not a tar file that can be read: {error}") from None
        except (tarfile.TarError, EOFError) as error:
            raise Corrupt(f"{place} is not a tar file that can be read: {error}") from None
        if not (room / MANIFEST).is_file():
            raise Corrupt(f"{place} has no {MANIFEST}: it is not a backup")
        yield room


def _check_log(folder: Path, manifest: "Manifest") -> None:
    from shared.bus import topology
    from shared.errors import Corrupt

    said = range(min(manifest.partitions, MAX_PARTITIONS))
    wanted = [topology.events_stream(partition) for partition in said]
    there = {part.stream for part in manifest.parts}
    if missing := [stream for stream in wanted if stream not in there]:
        raise Corrupt(f"{folder} is no whole log: its manifest has no {missing[0]}")
    events = sorted(stream for stream in there if stream.startswith(topology.events_stream(0)[:-1]))
    if not wanted or events != sorted(wanted):
        raise Corrupt(f"{folder} is no whole log: its manifest says {manifest.partitions} partitions, and has {events}")


@asynccontextmanager
async def _served(
    room: Path, folder: Path, manifest: "Manifest"
) -> "AsyncIterator[tuple[JetStreamBus, Settings]]":
    from services.cli.console.progress import patiently
    from shared.bus import jetstream
    from shared.runtime.embedded.nats_server import NatsServer
    from shared.runtime.service.settings import Settings

    server = NatsServer(room, partitions=manifest.partitions, own_session=True, with_owner=True, limited=True)
    await asyncio.to_thread(server.start)
    try:
        bus = await jetstream.connect(server.url_for("admin"), name="noetl-archive")
        try:
            await patiently(_bring(bus, folder, manifest), "opening the archive")
            yield bus, Settings(
                nats_url=server.url, nats_user="admin", nats_password=server.passwords["admin"], role="admin",
                partitions=manifest.partitions,
            )
        finally:
            await bus.close()
    finally:
        await asyncio.to_thread(server.stop)


def _no_room(why: str) -> CliError:
    return CliError(f"no room in {tempfile.gettempdir()} to open the archive, which needs its own size there: {why} "
                    "(TMPDIR says where)", exits.ERROR)


async def _bring(bus: "JetStreamBus", folder: Path, manifest: "Manifest") -> None:
    """The log and what it names; requests, schedules and the like are not read here. What the broker does not take is
    not what it once gave."""
    from shared.bus import topology
    from shared.bus.kv import stream_of
    from shared.errors import Corrupt, NoetlError
    from shared.runtime.backup import restore

    wanted = {*map(topology.events_stream, range(manifest.partitions)), topology.RESULTS, stream_of(topology.PLAYBOOKS)}
    for part in manifest.parts:
        if part.stream not in wanted:
            continue
        try:
            await restore.bring(bus, folder, part, 1)
        except NoetlError as error:
            if any(word in str(error) for word in ("no space left", "insufficient storage")):
                raise _no_room(str(error)) from None
            raise Corrupt(f"{part.file} cannot be opened: {error}") from None
