"""The partitions a control service owns: a shell for each, its cursor kept in KV.

The cursor is a hint: with the bucket wiped a shell starts at the beginning of the log and finds
everything decided. `live` in it names the executions a restarted service must look at; it is ready when it has tried
to load each of them.
"""

import asyncio
from collections.abc import Callable
from typing import Generic

import msgspec
import structlog
from msgspec import Struct

from shared.bus import topology
from shared.bus.membership import Membership
from shared.bus.ports import Bus, Clock
from shared.engine.core import S
from shared.errors import Corrupt, NoetlError
from shared.events.decoding import read
from shared.runtime.control.shell import Shell
from shared.runtime.service.health import hindrance

log = structlog.get_logger()
SAVE_S = 1.0
MAX_CURSOR_BYTES = 1_048_576


class Cursor(Struct, frozen=True, omit_defaults=True):
    seq: int = 0
    live: list[str] = []


_decoder = msgspec.json.Decoder(Cursor)


def decode_cursor(data: bytes) -> Cursor:
    """One that cannot be read counts as lost: the shell starts at the beginning."""
    try:
        return read(_decoder, data, "a cursor", MAX_CURSOR_BYTES)
    except Corrupt as error:
        log.error("cursor.lost", error=str(error))
        return Cursor()


class Partitions(Generic[S]):
    """`make(partition)` gives a new shell; `start(shell)` may prepare it before it follows."""

    def __init__(
        self, bus: Bus, clock: Clock, service: str, instance: str, count: int, make: Callable[[int], Shell[S]]
    ) -> None:
        self.shells: dict[int, Shell[S]] = {}
        self._bus = bus
        self._clock = clock
        self._service = service
        self._make = make
        self._running: dict[int, asyncio.Task[None]] = {}
        self._saved: dict[int, Cursor] = {}
        self._changed = asyncio.Event()
        self._members = Membership(bus, service, instance, count, clock, self._changed.set)
        hindrance("recovery", self._recovery)

    @property
    def members(self) -> frozenset[str]:
        """The instances of the service that are alive."""
        return self._members.members

    async def run(self, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        """Owns partitions until `stop`; then finishes the turns under way and saves the cursors."""
        await self._members.start()
        saver = asyncio.create_task(self._save_loop())
        stopping = asyncio.create_task(stop.wait())
        recovering: asyncio.Task[None] | None = None
        try:
            await self._own(self._members.owned)
            recovering = asyncio.create_task(self._recovered(ready))
            while not stop.is_set():
                changed = asyncio.create_task(self._changed.wait())
                await asyncio.wait({changed, stopping, saver}, return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                if saver.done():
                    saver.result()
                self._changed.clear()
                if not stop.is_set():
                    await self._own(self._members.owned)
        finally:
            saver.cancel()
            stopping.cancel()
            if recovering is not None:
                recovering.cancel()
            await self._members.stop()
            for partition in list(self._running):
                await self._drop(partition)

    async def _recovered(self, ready: Callable[[], None]) -> None:
        for shell in list(self.shells.values()):
            await shell.recovery.done.wait()
        ready()

    def _recovery(self) -> str:
        left = sum(len(shell.recovery.untried) for shell in self.shells.values())
        return f"{left} executions are still to be loaded" if left else ""

    async def _own(self, wanted: frozenset[int]) -> None:
        for partition in set(self._running) - wanted:
            await self._drop(partition)
        for partition in sorted(wanted - set(self._running)):
            await self._take(partition)

    async def _take(self, partition: int) -> None:
        shell = self._make(partition)
        cursor = await self._read(partition)
        self._saved[partition] = cursor
        self.shells[partition] = shell
        await shell.open(cursor.live)
        task = asyncio.create_task(shell.run(cursor.seq), name=f"{self._service}-{partition}")
        self._running[partition] = task
        log.info("partition.owned", partition=partition, after=cursor.seq, live=len(cursor.live))

    async def _drop(self, partition: int) -> None:
        task, shell = self._running.pop(partition), self.shells.pop(partition)
        task.cancel()
        await asyncio.wait({task})
        await shell.settled()
        try:
            await self._save(partition, shell)
        except NoetlError as error:
            log.warning("cursor.not_saved", partition=partition, error=str(error))
        await shell.stop()
        log.info("partition.released", partition=partition)

    async def _read(self, partition: int) -> Cursor:
        while True:
            try:
                entry = await self._bus.kv_get(topology.CURSORS, f"{self._service}.{partition}")
                return decode_cursor(entry.value) if entry else Cursor()
            except NoetlError as error:
                log.warning("cursor.waits", partition=partition, error=str(error))
                await self._clock.sleep(SAVE_S)

    async def _save(self, partition: int, shell: Shell[S]) -> None:
        cursor = Cursor(shell.cursor, shell.live())
        if cursor != self._saved[partition]:
            await self._bus.kv_put(topology.CURSORS, f"{self._service}.{partition}", msgspec.json.encode(cursor))
            self._saved[partition] = cursor

    async def _save_loop(self) -> None:
        while True:
            await self._clock.sleep(SAVE_S)
            for partition, shell in list(self.shells.items()):
                self._raise_if_broken(partition, shell)
                try:
                    await self._save(partition, shell)
                except NoetlError as error:
                    log.warning("cursor.not_saved", partition=partition, error=str(error))

    def _raise_if_broken(self, partition: int, shell: Shell[S]) -> None:
        if shell.background.broken is not None:
            raise shell.background.broken
        task = self._running.get(partition)
        if task is not None and task.done():
            task.result()
