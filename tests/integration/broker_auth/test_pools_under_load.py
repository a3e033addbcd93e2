"""New pools on a broker that is at work: each has its account at once, and nobody else notices."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from shared.bus import topology
from shared.bus.jetstream import JetStreamBus
from shared.bus.permissions import pool_account, worker_user
from shared.bus.streams import ensure
from shared.dsl.documents.compile import compile_pool
from shared.dsl.documents.pools import plain
from shared.errors import NoetlError, Unavailable
from shared.runtime.broker_auth.kept_accounts import KeptAccounts, as_user
from shared.runtime.broker_auth.keyring import account_key, rotated
from shared.runtime.broker_auth.pool_accounts import PoolAccounts
from shared.runtime.service.clock import SystemClock
from shared.runtime.stores import pools
from tests.support.servers.keyed_cluster import KeyedCluster
from tests.support.servers.keyed_nats import NOW, KeyedNats, Login, keyring
from tests.support.servers.nats_cluster import NODES
from tests.support.suite.long import long
from tests.support.waiting import until

NEW = 20
AT_ONCE_S, BUSY_S = 1.0, 5.0  # on a machine with nothing else to do, and beside other tests
SOON_S = 20.0
SYNCED_S = 30.0  # a server compares its accounts with the others' every 10 s
LED_S = 60.0
AWAY = 2


class Busy:
    """A server whose pool documents are followed, with a worker that takes commands all the time."""

    def __init__(self, server: KeyedNats | KeyedCluster) -> None:
        self.server = server
        self.sent, self.taken = 0, 0
        self._stop = asyncio.Event()

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        self.server.start()
        self.admin, self.worker = await self.server.bus("admin"), await self.server.bus("worker_default")
        await self._make_streams()
        settings = as_user(self.server.settings, self.server.place, self.server.keys, "admin")
        self.kept = KeptAccounts(self.server.place, self.server.settings, SystemClock())
        self.accounts = PoolAccounts(self.kept, settings, ("default",), lambda: None)
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

    async def _make_streams(self) -> None:
        if isinstance(self.server, KeyedCluster):
            await self.server.ensure(self.admin, topology.wanted())
        else:
            await ensure(self.admin, topology.wanted())

    async def make(self, name: str) -> None:
        source = plain(name, 1)
        document = compile_pool(source).document
        assert document is not None
        await pools.apply(self.admin, document, source, "ada", time.time())

    async def _send(self) -> None:
        """Over a broker that is away, too."""
        while True:
            with suppress(Unavailable):
                await self.admin.append(f"noetl.commands.default.x.r{self.sent}", b"x")
            self.sent += 1
            await asyncio.sleep(0.002)

    async def _take(self) -> None:
        consumer = await self.worker.consume(topology.COMMANDS, "default", 8)
        while True:
            for delivery in await consumer.batch(8):
                await delivery.ack()
                self.taken += 1

    async def pulled(self, name: str, node: int = 0, run: str = "r1") -> JetStreamBus:
        """A worker of the pool, at one of the nodes if there are several, that has taken a command."""
        await self.admin.append(f"noetl.commands.{name}.x.{run}", b"first")
        await until(lambda: name in self.accounts.pools, "it has an account", SOON_S)
        user = worker_user(name)
        worker = await (self.server.bus(user, node) if isinstance(self.server, KeyedCluster) else self.server.bus(user))
        consumer = await worker.consume(topology.COMMANDS, name, 1)
        (delivery,) = await consumer.batch(1)
        await delivery.ack()
        return worker


def busy_server(place: Path) -> Busy:
    return Busy(KeyedNats(place, keyring("jwt", place, ("default",), topology.PARTITIONS)))


def busy_cluster(place: Path) -> Busy:
    return Busy(KeyedCluster(place, keyring("jwt", place, ("default",), topology.PARTITIONS)))


@pytest.mark.parametrize(("brokers", "within_s"), [
    (busy_server, BUSY_S), long(busy_server, AT_ONCE_S), long(busy_cluster, AT_ONCE_S),
])
async def test_twenty_signed_pools_pull_at_once_and_no_connection_is_dropped(
    brokers: Callable[[Path], Busy], within_s: float, tmp_path: Path
) -> None:
    """On three brokers their workers are at each of them in turn."""
    busy = brokers(tmp_path)
    workers, late = [], []
    async with busy.working():
        for number in range(NEW):
            began = time.monotonic()
            await busy.make(f"etl{number}")
            workers.append(await asyncio.wait_for(busy.pulled(f"etl{number}", number % NODES), SOON_S))
            if (took := time.monotonic() - began) > within_s:
                late.append(f"etl{number}: {took:.2f} s")
        if isinstance(busy.server, KeyedCluster):
            made = {busy.server.keys.public(account_key(pool_account(f"etl{number}"))) for number in range(NEW)}
            assert [made - busy.server.accounts_at(node) for node in range(NODES)] == [set()] * NODES, "not told"
        before = busy.sent
        await until(lambda: busy.taken, "what was sent is taken", SOON_S, so=lambda taken: taken >= before)
        assert [bus.connections for bus in (busy.admin, busy.worker, *workers)] == [1] * (NEW + 2), "cut off"
        for bus in workers:
            await bus.close()
    assert late == []
    assert busy.taken > NEW


async def led(bus: JetStreamBus) -> bool:
    """Whether every stream takes writes, and every consumer is served."""
    names = (await bus.requests.api("STREAM.NAMES"))["streams"]
    streams = [await bus.requests.api(f"STREAM.INFO.{name}") for name in names]
    await bus.requests.api(f"CONSUMER.INFO.{topology.COMMANDS}.default")
    return all(found["cluster"].get("leader") for found in streams)


@pytest.mark.long
async def test_a_broker_that_was_away_knows_the_pools_that_were_made_and_the_keys_that_were_replaced_meanwhile(
    tmp_path: Path,
) -> None:
    """Nobody tells it: it asks the others for an account that it does not know, and compares the rest with theirs."""
    busy = busy_cluster(tmp_path)
    server = busy.server
    assert isinstance(server, KeyedCluster)
    async with busy.working():
        old = server.keys
        server.nodes[AWAY].stop()
        await until(
            lambda: led(busy.admin), "what it led has another leader", LED_S, despite=(NoetlError,), every_s=0.5)
        await busy.make("etl")
        for node in range(NODES):
            if node != AWAY:
                await (await asyncio.wait_for(busy.pulled("etl", node, f"r{node}"), SOON_S)).close()
        await asyncio.wait_for(busy.kept.change(lambda keys: rotated(keys, "worker_default", NOW)), SOON_S)
        server.nodes[AWAY].start()
        await (await asyncio.wait_for(busy.pulled("etl", AWAY, f"r{AWAY}"), SOON_S)).close()

        def is_shut_out() -> bool:
            try:
                server.nodes[AWAY].client("worker_default", old).close()
            except Login:
                return True
            return False

        await until(is_shut_out, "the old key is refused there too", SYNCED_S, every_s=0.5)
