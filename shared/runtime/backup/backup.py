"""Writes the truth down while the engine runs: the log, and what it cannot be derived from.

The order makes every reference hold in what is restored (docs/adr/0020):

    how far requests and schedules are    what is handled after this may be handled again: it has the same id
    event streams                         the log
    results                               stored before the record that names them
    requests                              their sequences continue after every one the log names
    all other buckets                     playbooks are stored before the execution that names them
"""

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from shared.bus import api, topology
from shared.bus.jetstream import JetStreamBus
from shared.bus.kv import stream_of
from shared.bus.wire import nanoseconds
from shared.errors import NoetlError
from shared.events.stamp import stamp
from shared.runtime.backup import archive, snapshot
from shared.runtime.backup.archive import Manifest, Part, Requests

# Built again from the log, or from those who are there.
DERIVED = (topology.CURSORS, topology.WORKERS, topology.CTX, topology.LOOPS)
Say = Callable[[str], None]


def streams(wanted: topology.Topology, *, secrets: bool) -> list[str]:
    """What is saved, in the order in which it has to be."""
    events = [topology.events_stream(partition) for partition in range(wanted.partitions)]
    first = [stream_of(topology.SCHEDULES), *events, topology.RESULTS, topology.REQUESTS]
    files = [stream.name for stream in wanted.streams if stream.storage == "file"]
    left_out = {*DERIVED, *(() if secrets else (topology.KEYCHAIN,))}
    buckets = [stream_of(bucket.name) for bucket in wanted.buckets if bucket.name not in left_out]
    return list(dict.fromkeys([*first, *files, *buckets]))


async def save(bus: JetStreamBus, folder: Path, partitions: int, *, secrets: bool, say: Say) -> Manifest:
    """Raises and leaves no manifest when anything is missing."""
    archive.create(folder)
    requests = await _requests(bus)
    parts = []
    for name in streams(topology.wanted(partitions=partitions), secrets=secrets):
        part = await _part(bus, folder, name)
        parts.append(part)
        say(f"{name}: {part.messages} messages, {part.bytes} bytes")
    manifest = Manifest(
        format=archive.FORMAT, made_at=stamp(await bus.time()), version=version("noetl-jetstream"),
        server=server_version(bus), partitions=partitions, secrets=secrets, requests=requests, parts=parts,
    )
    archive.finish(folder, manifest)
    return manifest


async def _requests(bus: JetStreamBus) -> Requests:
    info = await bus.requests.api(api.stream_info(topology.REQUESTS))
    consumer = await bus.requests.api(api.consumer_info(topology.REQUESTS, "router"))
    return Requests(nanoseconds(info["created"]), int(consumer["ack_floor"]["stream_seq"]))


async def _part(bus: JetStreamBus, folder: Path, name: str) -> Part:
    file = f"{name}.s2"
    try:
        with archive.writing(folder / file) as (write, written):
            saved = await snapshot.save(bus, name, write)
    except NoetlError as error:
        raise type(error)(f"the backup stops at {name}: {error}") from None
    return Part(name, file, written.bytes, written.sha256, saved, written.pieces)


def server_version(bus: JetStreamBus) -> str:
    return str(bus.connection._server_info.get("version", ""))
