"""Values too large for the log, in the results stream: chunks under their content hash, written once."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from shared.bus import topology
from shared.bus.ports import Bus
from shared.engine.large import STORE, Missing
from shared.errors import Corrupt, Duplicate, Unavailable
from shared.events import subjects
from shared.events.outcome import Ref

CHUNK_BYTES = 524_288
T = TypeVar("T")


class ValueMissing(Unavailable):
    """A value that the log refers to is not in the results stream, or not yet."""


async def store(bus: Bus, execution_id: str, blobs: Mapping[str, bytes]) -> None:
    """Storing the same value again is harmless: its subject is taken, by the same bytes."""
    for checksum, data in blobs.items():
        for chunk, start in enumerate(range(0, len(data), CHUNK_BYTES)):
            try:
                await bus.append(subjects.result(execution_id, checksum, chunk), data[start : start + CHUNK_BYTES])
            except Duplicate:
                continue


async def load(bus: Bus, ref: Ref) -> Any:
    """The value behind a reference; Corrupt when the bytes do not match its checksum."""
    if ref.store != STORE:
        raise Corrupt(f"a reference into {ref.store!r}; this build reads {STORE!r} only")
    execution_id, checksum = ref.key.split("/")
    parts: list[bytes] = []
    for chunk in range((ref.size + CHUNK_BYTES - 1) // CHUNK_BYTES):
        found = await bus.get(topology.RESULTS, subjects.result(execution_id, checksum, chunk))
        if found is None:
            raise ValueMissing(f"chunk {chunk} of result {ref.key} is not in the results stream (it may be purged)")
        parts.append(found.data)
    data = b"".join(parts)
    if hashlib.sha256(data).hexdigest() != ref.checksum:
        raise Corrupt(f"result {ref.key} does not match its checksum")
    return msgspec.json.decode(data)


async def brought(bus: Bus, values: dict[str, Any], work: Callable[[], T]) -> T:
    """Runs the work, adding stored values that it misses to `values`."""
    while True:
        try:
            return work()
        except Missing as missing:
            values[missing.ref.checksum] = await load(bus, missing.ref)
