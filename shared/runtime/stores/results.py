"""Values too large for the log, in the results stream: chunks under their content hash, written once."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec
import structlog

from shared.bus import topology
from shared.bus.ports import Bus
from shared.dsl.model.plan import PlanMissing
from shared.engine.values.stored_values import STORE, Missing
from shared.errors import Corrupt, Duplicate, Refused, Unavailable, Unreadable
from shared.events import subjects
from shared.events.bounds import MAX_STORED_BYTES
from shared.events.decoding import read
from shared.events.outcome import Ref

CHUNK_BYTES = 524_288
_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
T = TypeVar("T")
log = structlog.get_logger()


class ValueMissing(Unavailable):
    """A value that the log refers to is not in the results stream, or not yet."""


class Occupied(Refused):
    """Someone has put other bytes where a value belongs, also where only this writer and its like may write."""


async def store(bus: Bus, execution_id: str, blobs: Mapping[str, bytes], pool: str = "") -> None:
    """Storing the same value again is harmless: its subject is occupied, by the same bytes. Anyone may write there
    first; where other bytes are, the value goes beside them, to a subject that its pool alone may write (or, without
    one, the control services). Whoever reads uses the bytes that have the checksum."""
    for checksum, data in blobs.items():
        if await _is_put(bus, execution_id, checksum, data, ""):
            continue
        if not await _is_put(bus, execution_id, checksum, data, pool or subjects.NO_POOL):
            raise Occupied(f"result {execution_id}/{checksum} cannot be stored: other bytes are under its key")


async def _is_put(bus: Bus, execution_id: str, checksum: str, data: bytes, owner: str) -> bool:
    for chunk, start in enumerate(range(0, len(data), CHUNK_BYTES)):
        subject, part = subjects.result(execution_id, checksum, chunk, owner), data[start : start + CHUNK_BYTES]
        try:
            await bus.append(subject, part)
        except Duplicate:
            found = await bus.get(topology.RESULTS, subject)
            if found is None:
                # Replicas also say so of a write that is on its way, and which its leader may take to the grave.
                raise Unavailable(f"{subject} is taken and not stored yet") from None
            if found.data != part:
                log.error("result.occupied", subject=subject)
                return False
    return True


async def load(bus: Bus, ref: Ref) -> Any:
    """The value behind a reference; Unreadable when there are bytes, and none match its checksum."""
    if ref.store != STORE:
        raise Unreadable(f"result {ref.key} is in {ref.store!r}; this build reads {STORE!r} only")
    execution_id, checksum = ref.key.split("/")
    parts = [await _chunk(bus, execution_id, checksum, chunk) for chunk in range(-(-ref.size // CHUNK_BYTES))]
    data = b"".join(part for part in parts if part is not None)
    if not _matches(data, ref):
        data = await _beside(bus, execution_id, checksum, ref) or data
    if not _matches(data, ref):
        if None in parts:
            chunk = parts.index(None)
            raise ValueMissing(
                f"chunk {chunk} of result {ref.key} is not in the results stream (it may have been purged)")
        raise Unreadable(f"result {ref.key} does not match its checksum and size")
    try:
        return read(_decoder, data, "a stored value", MAX_STORED_BYTES)
    except Corrupt as error:
        raise Unreadable(f"result {ref.key}: {error}") from None


async def _chunk(bus: Bus, execution_id: str, checksum: str, chunk: int) -> bytes | None:
    subject = subjects.result(execution_id, checksum, chunk)  # written once: any copy of it is right
    found = await bus.get(topology.RESULTS, subject, any_copy=True) or await bus.get(topology.RESULTS, subject)
    return None if found is None else found.data


async def _beside(bus: Bus, execution_id: str, checksum: str, ref: Ref) -> bytes | None:
    """Where others had put something else first."""
    owned: dict[str, dict[int, bytes]] = {}
    every = subjects.result(execution_id, checksum, "*", "*")
    for message in await bus.read(topology.RESULTS, [every]):
        chunk, owner = subjects.parse_owned_result(message.subject)
        if chunk.isdecimal():
            owned.setdefault(owner, {})[int(chunk)] = message.data
    found = (b"".join(data for _, data in sorted(chunks.items())) for chunks in owned.values())
    return next((data for data in found if _matches(data, ref)), None)


def _matches(data: bytes, ref: Ref) -> bool:
    return len(data) == ref.size and hashlib.sha256(data).hexdigest() == ref.checksum


class PlanStore(Protocol):
    async def load(self, digest: str) -> object: ...


async def here(work: Callable[[], T]) -> T:
    return work()


async def brought(
    bus: Bus, values: dict[str, Any], work: Callable[[], T], plans: PlanStore | None = None, *,
    run: Callable[[Callable[[], T]], Awaitable[T]] = here,
) -> T:
    """The result of pure work, once nothing is missing. Stored values that it asks for are added to `values`, and plans
    are loaded; then it is run again, from its beginning. `run` may take it to a thread."""
    while True:
        try:
            return work() if run is here else await run(work)
        except Missing as missing:
            values[missing.ref.checksum] = await load(bus, missing.ref)
        except PlanMissing as missing:
            if plans is None:
                raise
            await plans.load(missing.digest)
