"""Accounts of pools: whoever makes a pool gets one for it at once, on whatever broker. Connections, streams and the
queue stay."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

import structlog

from shared.bus import pool_consumer, topology
from shared.bus.kv import stream_of
from shared.bus.ports import Bus
from shared.dsl.documents import pools as documents
from shared.dsl.documents.compile import compile_pool
from shared.dsl.read.pool_names import name_fix
from shared.errors import Conflict, Unavailable
from shared.runtime.service.main import connect
from shared.runtime.service.settings import Settings
from shared.runtime.service.supervisor import sleep_or_stop
from shared.runtime.stores import pools

RETRY_S = 1.0
BY = "noetlctl up"
log = structlog.get_logger()


class BrokerAuth(Protocol):
    """A way to tell a broker which pools there are."""

    async def settle(self, pools: tuple[str, ...], fresh: Sequence[str]) -> None:
        """Returns when exactly these pools have an account; those of `fresh`, which are new, were seen to work."""


class PoolAccounts:
    """`pools` are those the broker knows; `changed` is called when they are others."""

    def __init__(
        self, auth: BrokerAuth, admin: Settings, given: tuple[str, ...], changed: Callable[[], None]
    ) -> None:
        self._auth, self._admin, self._changed = auth, admin, changed
        self._given = self.pools = given
        self._undocumented = set(given)  # nobody has said of them that they are gone

    async def begin(self) -> None:
        """The pools that were given have a document, and every document has its account."""
        bus = await connect("accounts", self._admin)
        try:
            for name in self._given:
                await _document(bus, name)
            await self._settle(bus)
        finally:
            await bus.close()

    async def keep(self, stop: asyncio.Event) -> None:
        """Until `stop`, as documents come and go."""
        while not stop.is_set():
            task = asyncio.create_task(self._follow())
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled() and (error := task.exception()) is not None:
                log.warning("accounts.wait", error=str(error))
                await sleep_or_stop(stop, RETRY_S)

    async def _follow(self) -> None:
        bus = await connect("accounts", self._admin)
        follower = bus.follow(stream_of(topology.POOLS), [pools.subject()], 0)
        try:
            while True:
                await follower.batch()
                await self._settle(bus)
        finally:
            await follower.close()
            await bus.close()

    async def _settle(self, bus: Bus) -> None:
        documented = pools.names(await bus.kv_all(topology.POOLS))
        self._undocumented -= set(documented)
        wanted = tuple(dict.fromkeys((*documented, *sorted(self._undocumented))))
        if set(wanted) != set(self.pools):
            fresh = [name for name in wanted if name not in self.pools]
            await self._auth.settle(wanted, fresh)
            log.info("accounts.changed", pools=",".join(wanted))
            self.pools = wanted
            self._changed()
        await pool_consumer.ensure(bus, await pools.consumers(bus, (), await bus.time()))


async def _document(bus: Bus, name: str) -> None:
    source = documents.plain(name, 1)
    pool = compile_pool(source).document
    if pool is None:
        if name in await pools.everything(bus):  # made when its name could still be had
            return
        raise Unavailable(f"a pool cannot be called {name!r} ({name_fix(name)})")
    with suppress(Conflict):  # it is there, as people want it
        await pools.apply(bus, pool, source, BY, await bus.time(), new=True)
