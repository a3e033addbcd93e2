"""Snapshots of folded states in KV, so that a load reads the tail of the log instead of all of it.

A cache and nothing else: a missing, old or unreadable snapshot costs time. It says itself up to which
own and which input sequence it holds (`seq`, `as_of`). One that does not fit into a message, as of a large loop, is
cut into parts under keys of their own; they are there before the entry that names them, and those of the snapshot
before go after it.

Services of two versions may write it in turn, and each ignores what it does not know: a state that went through the
other one would have lost fields, and decide otherwise than the log says. So a snapshot names the shape of its state,
and is taken by those of the same shape alone; the others fold the log.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Generic

import msgspec
import structlog

from shared.bus import topology
from shared.bus.ports import Bus
from shared.engine.core import S
from shared.engine.values.stored_values import MAX_RECORD_BYTES
from shared.errors import NoetlError
from shared.events.readers import Decider
from shared.runtime.control.state_shape import shape

log = structlog.get_logger()
FORMAT = "7"  # changes with what a state means; its shape speaks for itself
IN_PARTS = b" in parts "
_HEAD = re.compile(rb"[0-9a-f ]{1,32}?" + IN_PARTS)  # of any format
MAX_SNAPSHOT_BYTES = 64 * 1_048_576
BUCKETS: Mapping[Decider, str] = {"router": topology.CTX, "scheduler": topology.LOOPS}


class Parts(msgspec.Struct, frozen=True):
    """`slot` tells the parts of one snapshot from those of another."""

    slot: str
    count: int

    def keys(self, execution_id: str) -> list[str]:
        return [f"{execution_id}.{self.slot}.{number}" for number in range(self.count)]


class Snapshots(Generic[S]):
    def __init__(self, bus: Bus, bucket: str, kind: type[S]) -> None:
        self._bus, self._bucket = bus, bucket
        self._decoder = msgspec.json.Decoder(kind)
        self._format = f"{FORMAT} {shape(kind)}".encode()
        self._parts: dict[str, Parts] = {}

    def weight(self, execution_id: str) -> int:
        """How many messages its snapshot is: a large one is made less often."""
        parts = self._parts.get(execution_id)
        return parts.count if parts is not None else 1

    async def get(self, execution_id: str) -> S | None:
        entry = await self._bus.kv_get(self._bucket, execution_id, any_copy=True)
        if entry is None:
            return None
        try:
            self._note_parts(execution_id, entry.value)
            if not entry.value.startswith(self._format):
                return None
            data = await self._joined(execution_id, entry.value[len(self._format) :])
            return self._decoder.decode(data) if data is not None else None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            log.warning("snapshot.unreadable", execution_id=execution_id, error=str(error))
            return None

    def _note_parts(self, execution_id: str, value: bytes) -> None:
        """Also those of another shape: they go with the snapshot that comes after it."""
        if head := _HEAD.match(value):
            self._parts[execution_id] = msgspec.json.decode(value[head.end() :], type=Parts)

    async def _joined(self, execution_id: str, value: bytes) -> bytes | None:
        if not value.startswith(IN_PARTS):
            return value
        parts = self._parts[execution_id]
        found = [await self._bus.kv_get(self._bucket, key, any_copy=True) for key in parts.keys(execution_id)]
        data = b"".join(entry.value for entry in found if entry is not None)
        return data if _slot(data) == parts.slot else None

    async def put(self, execution_id: str, state: S) -> None:
        """A state over the limit is left out: the log has it."""
        try:
            data = msgspec.json.encode(state)
            if len(data) <= MAX_SNAPSHOT_BYTES:
                await self._put(execution_id, data)
        except (NoetlError, OverflowError, RecursionError) as error:
            log.warning("snapshot.lost", execution_id=execution_id, error=str(error))

    async def _put(self, execution_id: str, data: bytes) -> None:
        if len(data) + len(self._format) <= MAX_RECORD_BYTES:
            await self._bus.kv_put(self._bucket, execution_id, self._format + data)
            await self._forget(execution_id)
            return
        parts = Parts(_slot(data), -(-len(data) // MAX_RECORD_BYTES))
        for number, key in enumerate(parts.keys(execution_id)):
            start = number * MAX_RECORD_BYTES
            await self._bus.kv_put(self._bucket, key, data[start : start + MAX_RECORD_BYTES])
        await self._bus.kv_put(self._bucket, execution_id, self._format + IN_PARTS + msgspec.json.encode(parts))
        if self._parts.get(execution_id) != parts:
            await self._forget(execution_id)
        self._parts[execution_id] = parts

    async def drop(self, execution_id: str) -> None:
        try:
            await self._bus.kv_delete(self._bucket, execution_id)
            await self._forget(execution_id)
        except NoetlError as error:
            log.warning("snapshot.lost", execution_id=execution_id, error=str(error))

    async def _forget(self, execution_id: str) -> None:
        parts = self._parts.pop(execution_id, None)
        for key in parts.keys(execution_id) if parts is not None else ():
            await self._bus.kv_delete(self._bucket, key)


def _slot(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
