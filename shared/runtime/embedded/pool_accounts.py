"""Accounts of pools on the embedded server: whoever makes a pool gets one for it at once. The server reads its
configuration again; connections, streams and the queue stay."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import structlog
from msgspec.structs import replace

from shared.bus import pool_consumer, topology
from shared.bus.kv import stream_of
from shared.bus.permissions import worker_user
from shared.bus.ports import Bus
from shared.dsl.documents import pools as documents
from shared.dsl.documents.compile import compile_pool
from shared.dsl.read.pool_names import name_fix
from shared.errors import Conflict, NoetlError, Unavailable
from shared.runtime.embedded.nats_server import NatsServer
from shared.runtime.service.main import connect
from shared.runtime.service.settings import Settings
from shared.runtime.service.supervisor import sleep_or_stop
from shared.runtime.stores import pools

RETRY_S = 1.0
LOOK_S = 0.2
RELOADS = 25
BY = "noetlctl up"
log = structlog.get_logger()


class PoolAccounts:
    """`pools` are those the server knows; `changed` is called when they are others."""

    def __init__(
        self, server: NatsServer, admin: Settings, given: tuple[str, ...], changed: Callable[[], None]
    ) -> None:
        self._server, self._admin, self._changed = server, admin, changed
        self._given = self.pools = given

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
        wanted = tuple(pools.names(await bus.kv_all(topology.POOLS)))
        if set(wanted) != set(self.pools):
            fresh = [name for name in wanted if name not in self.pools]
            await asyncio.to_thread(self._server.configure, wanted)
            await self._reload(fresh)
            log.info("accounts.changed", pools=",".join(wanted))
            self.pools = wanted
            self._changed()
        await pool_consumer.ensure(bus, await pools.consumers(bus, (), await bus.time()))

    async def _reload(self, fresh: list[str]) -> None:
        """A new account's imports work only after the server has read its configuration once more."""
        for _ in range(RELOADS):
            self._server.reload()
            await asyncio.sleep(LOOK_S)
            if all([await self._works(name) for name in fresh]):
                return
        raise Unavailable(f"the server does not take the accounts of {', '.join(fresh)} (see nats.log)")

    async def _works(self, name: str) -> bool:
        user = worker_user(name)
        settings = replace(self._admin, nats_user=user, nats_password=self._server.passwords[user])
        try:
            bus = await connect("accounts", settings)
        except NoetlError:
            return False
        try:
            await bus.kv_get(topology.PLAYBOOKS, "probe")
            return True
        except NoetlError:
            return False
        finally:
            await bus.close()


async def _document(bus: Bus, name: str) -> None:
    source = documents.plain(name, 1)
    pool = compile_pool(source).document
    if pool is None:
        if name in await pools.everything(bus):  # made when its name could still be had
            return
        raise Unavailable(f"a pool cannot be called {name!r} ({name_fix(name)})")
    with suppress(Conflict):  # it is there, as people want it
        await pools.apply(bus, pool, source, BY, await bus.time(), new=True)
