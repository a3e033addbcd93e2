"""Restores a backup into a broker that has nothing of the kind. Nothing is ever written over: what is there and not
empty stops it before the first byte."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from shared.bus import api, topology
from shared.bus.codes import NotFound
from shared.bus.jetstream import JetStreamBus
from shared.bus.kv import stream_of
from shared.bus.ports import Message
from shared.errors import Corrupt, Refused
from shared.events import request, subjects
from shared.events.headers import request_id
from shared.runtime.backup import archive, snapshot
from shared.runtime.backup.archive import Manifest, Part
from shared.runtime.backup.backup import DERIVED
from shared.runtime.stores.pools import LEADER

ABOUT_EXECUTIONS = frozenset({subjects.CANCEL, subjects.PAUSE, subjects.RESUME, subjects.SIGNAL})
PRESENCE = (LEADER, "status.>")  # who looked after the pools over there, and the processes it saw
Say = Callable[[str], None]


async def take_back(bus: JetStreamBus, folder: Path, manifest: Manifest, *, replicas: int, say: Say) -> None:
    """The manifest's files have been checked. Services must not run: they would decide on half a log."""
    await _refuse_what_is_there(bus, manifest)
    for part in manifest.parts:
        await bring(bus, folder, part, replicas)
        say(f"{part.stream}: {part.messages} messages, up to {part.last_seq}")
    for key in PRESENCE:
        body = {"filter": subjects.key(topology.POOLS, key)}
        await bus.requests.api(api.stream_purge(stream_of(topology.POOLS)), body)
    await settle_requests(bus, manifest)


async def _refuse_what_is_there(bus: JetStreamBus, manifest: Manifest) -> None:
    names = {*(part.stream for part in manifest.parts), *(stream_of(bucket) for bucket in DERIVED)}
    for name in sorted(names):
        if await _messages(bus, name):
            raise Refused(
                f"the broker is not empty: {name} has messages. A backup is restored into an empty broker only: "
                "give another folder, or another server"
            )
    if await _messages(bus, topology.COMMANDS):
        raise Refused(f"the broker is not empty: {topology.COMMANDS} has commands")


async def _messages(bus: JetStreamBus, name: str) -> int:
    try:
        return int((await bus.requests.api(api.stream_info(name)))["state"]["messages"])
    except NotFound:
        return 0


async def bring(bus: JetStreamBus, folder: Path, part: Part, replicas: int) -> None:
    """One stream of a backup whose files have been checked."""
    with suppress(NotFound):
        await bus.requests.api(api.stream_delete(part.stream))  # it is empty
    saved = replace(part.saved, config={**part.saved.config, "num_replicas": replicas})
    state = await snapshot.restore(bus, part.stream, saved, archive.chunks(folder / part.file))
    check(part, state)


def check(part: Part, state: dict[str, Any]) -> None:
    """What was written while the backup was made may be there too. Of a sealed stream nothing may be missing; of
    others, what was replaced meanwhile or has become too old."""
    wanted = part.saved.state
    lost = state["last_seq"] < wanted["last_seq"]
    if part.saved.config.get("deny_purge") and wanted["messages"]:
        lost = lost or state["messages"] < wanted["messages"] or state["first_seq"] != wanted["first_seq"]
    if lost:
        names = ("messages", "first_seq", "last_seq")
        found, asked = ({name: which[name] for name in names} for which in (state, wanted))
        raise Corrupt(f"{part.stream} did not come back whole: {found} instead of {asked}")


async def settle_requests(bus: JetStreamBus, manifest: Manifest) -> None:
    """Requests that were handled before the log was read are gone; later ones come again, and find what they started.
    An execution whose id came from the place of its request would not be found, since the new stream has another time
    of birth: those that the log has are deleted."""
    name = topology.REQUESTS
    await bus.requests.api(api.stream_purge(name), {"seq": manifest.requests.handled + 1})
    state = (await bus.requests.api(api.stream_info(name)))["state"]
    if state["messages"]:
        await _forget_started(bus, manifest, state["last_seq"])
    with suppress(NotFound):  # it stands behind requests that are to come again
        await bus.requests.api(api.consumer_delete(name, "router"))


async def _forget_started(bus: JetStreamBus, manifest: Manifest, last: int) -> None:
    name, after = topology.REQUESTS, manifest.requests.handled
    follower = bus.follow(name, [f"{subjects.REQUESTS}.>"], after, lazy=True)
    try:
        while after < last:
            for message in await follower.batch():
                after = message.seq
                execution_id = derived_id(message, manifest.requests.epoch)
                if execution_id and await _is_known(bus, execution_id, manifest.partitions):
                    await bus.requests.api(api.message_delete(name), {"seq": message.seq, "no_erase": True})
    finally:
        await follower.close()


def derived_id(message: Message, epoch: int) -> str:
    """The id of the execution that this request started, if it came from its place in the stream."""
    if request_id(message.headers) or message.subject in ABOUT_EXECUTIONS:
        return ""
    try:
        if message.subject != subjects.RERUN and request.decode(message.data).execution_id:
            return ""
    except Corrupt:
        return ""
    return request.derive_id("seq", epoch, message.seq)


async def _is_known(bus: JetStreamBus, execution_id: str, partitions: int) -> bool:
    partition = subjects.partition_of(execution_id, partitions)
    subject = subjects.event(partition, execution_id, "router")
    return await bus.get(topology.events_stream(partition), subject) is not None
