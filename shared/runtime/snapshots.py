"""Snapshots of folded states in KV, so that a load reads the tail of the log instead of all of it.

A cache and nothing else: a missing, old or unreadable snapshot costs time. It says itself up to which
own and which input sequence it holds (`seq`, `as_of`).
"""

from typing import Generic

import msgspec
import structlog

from shared.bus.ports import Bus
from shared.engine.large import MAX_RECORD_BYTES
from shared.errors import NoetlError
from shared.runtime.core import S

log = structlog.get_logger()
FORMAT = b"1 "  # changes with the shape of a state


class Snapshots(Generic[S]):
    def __init__(self, bus: Bus, bucket: str, kind: type[S]) -> None:
        self._bus, self._bucket = bus, bucket
        self._decoder = msgspec.json.Decoder(kind)

    async def get(self, execution_id: str) -> S | None:
        entry = await self._bus.kv_get(self._bucket, execution_id)
        if entry is None or not entry.value.startswith(FORMAT):
            return None
        try:
            return self._decoder.decode(entry.value[len(FORMAT) :])
        except msgspec.MsgspecError as error:
            log.warning("snapshot.unreadable", execution_id=execution_id, error=str(error))
            return None

    async def put(self, execution_id: str, state: S) -> None:
        """A state too large for a message is left out: the log has it."""
        data = FORMAT + msgspec.json.encode(state)
        if len(data) <= MAX_RECORD_BYTES:
            await self._try(execution_id, data)

    async def drop(self, execution_id: str) -> None:
        await self._try(execution_id, None)

    async def _try(self, execution_id: str, data: bytes | None) -> None:
        try:
            if data is None:
                await self._bus.kv_delete(self._bucket, execution_id)
            else:
                await self._bus.kv_put(self._bucket, execution_id, data)
        except NoetlError as error:
            log.warning("snapshot.lost", execution_id=execution_id, error=str(error))
