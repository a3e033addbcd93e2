"""New pools on a broker that is at work: each has its account at once, and nobody else notices."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from shared.bus import topology
from shared.bus.jetstream import JetStreamBus
from shared.bus.permissions import worker_user
from shared.bus.streams import ensure
from shared.dsl.documents.compile import compile_pool
from shared.dsl.documents.pools import plain
from shared.runtime.broker_auth.kept_accounts import KeptAccounts, as_user
from shared.runtime.broker_auth.pool_accounts import PoolAccounts
from shared.runtime.service.clock import SystemClock
from shared.runtime.stores import pools
from tests.support.long import long
from tests.support.servers.keyed_nats import KeyedNats, keyring
from tests.support.waiting import until

NEW = 20
AT_ONCE_S, BUSY_S = 1.0, 5.0  # on a machine with nothing else to do, and beside other tests
SOON_S = 20.0


class Busy:
    """A server whose pool documents are followed, with a worker that takes commands all the time."""

    def __init__(self, place: Path, mode: str) -> None:
        self.server = KeyedNats(place, keyring(mode, place, ("default",), topology.PARTITIONS))
        self.sent, self.taken = 0, 0
        self._stop = asyncio.Event()

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        self.server.start()
        self.admin, self.worker = await self.server.bus("admin"), await self.server.bus("worker_default")
        await ensure(self.admin, topology.wanted())
        settings = as_user(self.server.settings, self.server.place, self.server.keys, "admin")
        kept = KeptAccounts(self.server.place, self.server.settings, SystemClock())
        self.accounts = PoolAccounts(kept, settings, ("default",), lambda: None)
        await self.accounts.begin()
        tasks = [asyncio.create_task(each) for each in (self.accounts.keep(self._stop), self._send(), self._take())]
        try:
            yield
        finally:
            self._stop.set()
            for task in tasks[1:]:
                task.cancel()
            await asyncio.wait(tasks)
            await self.admin.close()
            await self.worker.close()
            self.server.stop()

    async def make(self, name: str) -> None:
        source = plain(name, 1)
        document = compile_pool(source).document
        assert document is not None
        await pools.apply(self.admin, document, source, "ada", time.time())

    async def _send(self) -> None:
        while True:
            await self.admin.append(f"noetl.commands.default.x.r{self.sent}", b"x")
            self.sent += 1
            await asyncio.sleep(0.002)

    async def _take(self) -> None:
        consumer = await self.worker.consume(topology.COMMANDS, "default", 8)
        while True:
            for delivery in await consumer.batch(8):
                await delivery.ack()
                self.taken += 1

    async def pulled(self, name: str) -> JetStreamBus:
        """A worker of the pool that has taken a command."""
        await self.admin.append(f"noetl.commands.{name}.x.r1", b"first")
        await until(lambda: name in self.accounts.pools, "it has an account", SOON_S)
        worker = await self.server.bus(worker_user(name))
        consumer = await worker.consume(topology.COMMANDS, name, 1)
        (delivery,) = await consumer.batch(1)
        await delivery.ack()
        return worker


@pytest.mark.parametrize("within_s", [BUSY_S, long(AT_ONCE_S)])
async def test_twenty_signed_pools_pull_at_once_and_no_connection_is_dropped(within_s: float, tmp_path: Path) -> None:
    busy = Busy(tmp_path, "jwt")
    workers, late = [], []
    async with busy.working():
        for number in range(NEW):
            began = time.monotonic()
            await busy.make(f"etl{number}")
            workers.append(await asyncio.wait_for(busy.pulled(f"etl{number}"), SOON_S))
            if (took := time.monotonic() - began) > within_s:
                late.append(f"etl{number}: {took:.2f} s")
        before = busy.sent
        await until(lambda: busy.taken, "what was sent is taken", SOON_S, so=lambda taken: taken >= before)
        assert [bus.connections for bus in (busy.admin, busy.worker, *workers)] == [1] * (NEW + 2), "cut off"
        for bus in workers:
            await bus.close()
    assert late == []
    assert busy.taken > NEW
