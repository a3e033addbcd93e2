"""Listens to the beats of workers, and to what others know about them: the broker about connections that closed, a
supervisor about processes that ended."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import msgspec
import structlog
from msgspec import Struct

from services.scheduler.pool_capacity import Rooms
from services.scheduler.takeover import Takeover
from shared.bus import dead_letters, kv, topology
from shared.bus.ports import Bus, Message
from shared.errors import Corrupt, NoetlError
from shared.events import beat as beats
from shared.events import subjects
from shared.events.bounds import MAX_WORD_BYTES
from shared.events.decoding import read
from shared.runtime.control.letter_quota import Quota
from shared.runtime.service.listener import listen
from shared.runtime.stores.heartbeats import Unreadable

log = structlog.get_logger()
ORIGIN = "workers"


class _Client(Struct):
    name: str = ""


class _Closed(Struct):
    """What matters here of the broker's advisory about a connection that closed."""

    client: _Client


_closed = msgspec.json.Decoder(_Closed)


class Hearing:
    def __init__(self, bus: Bus, rooms: Rooms, takeover: Takeover) -> None:
        self._bus, self._rooms, self._takeover = bus, rooms, takeover
        self._unreadable = Unreadable()
        self._quota = Quota(asyncio.get_running_loop().time, ORIGIN)

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        return [self._hear_beats(), listen(self._bus, subjects.closed("*"), self._closed),
                listen(self._bus, subjects.ended("*"), self._ended)]

    async def _hear_beats(self) -> None:
        inbox = await self._bus.subscribe(kv.changes_of(topology.WORKERS))
        try:
            await self._hear_earlier()
            while True:
                message = await inbox.message()
                await self._take(kv.key_of(topology.WORKERS, message.subject), message)
        finally:
            await inbox.close()

    async def _hear_earlier(self) -> None:
        """A worker may have died together with the previous scheduler: its last beat is kept for a while."""
        try:
            beats = await self._bus.kv_all(topology.WORKERS)
        except NoetlError as error:
            log.warning("beats.unread", error=str(error))
            return
        for worker, data in beats.items():
            await self._take(worker, Message(worker, data, 0))

    async def _take(self, worker: str, message: Message) -> None:
        if kv.is_deleted(message.headers) or not message.data:
            self._end(worker)
            return
        try:
            beat = beats.decode(worker, message.data)
        except Corrupt as error:
            if not beats.is_probe(worker) and self._unreadable.tell(worker, error):
                await self._bury(worker, message, error)
            return
        self._unreadable.forget(worker)
        self._rooms.heard(worker, beat)
        self._takeover.heard(worker, beat)

    async def _bury(self, worker: str, message: Message, error: Corrupt) -> None:
        """Its entry expires in a moment; a dead letter of the key stays. There is a quota, since keys can be
        invented."""
        pool, place = worker.partition(".")[0], f"{topology.WORKERS}/{worker}"
        try:
            if self._quota.take(pool):
                await dead_letters.bury(self._bus, ORIGIN, place, str(error), message.data, owner=pool)
            else:
                await self._quota.tell_over(self._bus, pool)
        except NoetlError as unsaid:
            log.warning("beat.not_told", error=str(unsaid))

    def _end(self, worker: str) -> None:
        self._rooms.ended(worker)
        self._takeover.ended(worker)

    def _ended(self, data: bytes) -> None:
        self._end(data.decode(errors="replace"))

    def _closed(self, data: bytes) -> None:
        """From brokers whose configuration lets this account hear it (`shared/bus/permissions.py`)."""
        try:
            client = read(_closed, data, "a word of the broker", MAX_WORD_BYTES).client
        except Corrupt as error:
            log.warning("closed.unreadable", error=str(error))
            return
        self._takeover.closed(client.name.partition("/")[2])
