"""The beats of a worker: that it is alive, what it holds, how much room it has.

Every BEAT_S; as soon as there is more or less room; after the connection broke; and soon after a run was begun that
lasts, so that the schedulers, which give a dead worker's runs to others, know of it.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice

import msgspec
import structlog

from services.worker.capacity import LOOK_S, Room
from services.worker.hold import Around, Hold
from services.worker.presence import BEAT_S
from shared.bus import topology
from shared.errors import Conflict, NoetlError
from shared.events.beat import Beat, Key, Saying, key_of
from shared.events.bounds import MAX_BEAT_SAYINGS
from shared.runtime.service.main import own_version
from shared.runtime.service.settings import Settings
from shared.tools.toolbox import Tools

log = structlog.get_logger()
AGAIN_S = 0.3   # after a beat that was lost
LASTS_S = 0.3   # a run that is held for this long is named soon
OFTEN_S = 0.5   # and not more often than this


class Beating:
    def __init__(
        self, around: Around, settings: Settings, holds: Mapping[Key, Hold], room: Room, tools: Tools,
        draining: Callable[[], bool],
    ) -> None:
        self._bus, self._clock, self._settings, self._presence = around.bus, around.clock, settings, around.presence
        self._holds, self._room, self._tools, self._draining = holds, room, tools, draining
        self._now = asyncio.get_running_loop().time
        self._taken = asyncio.Event()
        self._started, self._version = around.clock.now(), own_version()
        self._key = key_of(settings.pool, settings.instance)
        self._revision: int | None = None  # of our last beat

    def took(self) -> None:
        self._taken.set()

    async def run(self) -> None:
        while True:
            connections, began = self._bus.connections, self._now()
            said = await self._say()
            until = began + (BEAT_S if said else AGAIN_S)
            while self._now() < until and self._bus.connections == connections:
                await self._rest(until - self._now())
                if self._room.look(self._tools.under_way) or self._is_news(began):
                    break

    async def _say(self) -> bool:
        named = list(self._holds.values())
        try:
            self._revision = await self._bus.kv_put(topology.WORKERS, self._key, msgspec.json.encode(self._beat()))
        except NoetlError as error:
            self._revision = None
            log.warning("beat.lost", error=str(error))
            return False
        self._presence.confirm()
        for hold in named:
            hold.named = True
        return True

    def _is_news(self, since: float) -> bool:
        """A run that lasts, and that no beat has named."""
        now = self._now()
        return now - since > OFTEN_S and any(
            not hold.named and now - hold.since > LASTS_S for hold in self._holds.values())

    async def _rest(self, left: float) -> None:
        """A worker that has nothing to do is not woken to look at its room."""
        if self._holds or not self._room.is_quiet:
            await self._clock.sleep(min(LOOK_S, left))
            return
        self._taken.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(min(OFTEN_S, left)):
                await self._taken.wait()

    def _beat(self) -> Beat:
        settings = self._settings
        return Beat(
            settings.instance, settings.pool, settings.slots, list(self._holds), room=self._room.size,
            host=socket.gethostname(), pid=os.getpid(), started=self._started, version=self._version,
            provides=settings.provides, draining=self._draining(),
            seqs=[hold.delivery.seq for hold in self._holds.values()], skew=round(self._clock.skew, 1),
            busy=self._tools.busy(), says=list(islice(self._sayings(), MAX_BEAT_SAYINGS)),
        )

    def _sayings(self) -> Iterator[Saying]:
        for hold in self._holds.values():
            if hold.run is not None:
                yield from hold.run.saying()

    async def goodbye(self) -> None:
        """A last beat, with nothing held, for those who follow beats; then the entry is deleted. If another process
        beats under this name by now, the entry is its own: deleting it would say that what it holds is lost."""
        try:
            last = msgspec.json.encode(self._beat())
            await self._bus.kv_put(topology.WORKERS, self._key, last, expected=self._revision)
            await self._bus.kv_delete(topology.WORKERS, self._key)
        except Conflict:
            log.warning("beat.lost", error="the entry has changed since our last beat and stays as it is")
        except NoetlError:
            log.warning("beat.lost", error="could not say goodbye; the entry expires by itself")
