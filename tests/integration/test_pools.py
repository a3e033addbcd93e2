"""Pools on a real server: their consumers stop and go on, and accounts come and go while others work."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared.bus import pool_consumer, topology
from shared.bus.jetstream import JetStreamBus, connect
from shared.bus.streams import ensure
from shared.dsl.documents.compile import compile_pool
from shared.dsl.documents.pools import plain
from shared.errors import NoetlError, Refused
from shared.runtime.broker_auth.pool_accounts import PoolAccounts
from shared.runtime.embedded.nats_server import NatsServer
from shared.runtime.embedded.reloaded_accounts import ReloadedAccounts
from shared.runtime.service.settings import Settings
from shared.runtime.stores import pool_state, pools
from shared.runtime.stores.documents import NotThere
from tests.support.waiting import until

SUBJECT = "noetl.commands.default.x.r{}"


async def test_workers_that_wait_are_woken_when_a_pause_is_ended_early(
    admin: JetStreamBus, nats_server: NatsServer
) -> None:
    worker = await connect(nats_server.url_for("worker_default"))
    try:
        consumer = await worker.consume(topology.COMMANDS, "default", 4)
        waiting = asyncio.create_task(consumer.batch(4))
        await asyncio.sleep(0.2)
        await pool_consumer.pause(admin, "default", pool_consumer.FOR_EVER)
        await admin.append(SUBJECT.format(1), b"a")
        await asyncio.sleep(0.3)
        assert not waiting.done()
        queue = await pool_consumer.look(admin, "default")
        assert queue is not None
        since = await pool_consumer.oldest(admin, "default", queue)
        assert since is not None
        assert 0 < time.time() - since < 30
        await pool_consumer.resume(admin, "default", time.time())
        (delivery,) = await asyncio.wait_for(waiting, 3)
        assert delivery.data == b"a"
    finally:
        await worker.close()


async def test_a_consumer_is_made_paused(admin: JetStreamBus) -> None:
    await admin.requests.api(f"CONSUMER.DELETE.{topology.COMMANDS}.default")
    await pool_consumer.ensure(admin, {"default": pool_consumer.FOR_EVER, "gpu": ""})
    found = [await pool_consumer.look(admin, pool) for pool in ("default", "gpu")]
    assert [queue.paused_until for queue in found if queue is not None] == [pool_consumer.FOR_EVER, ""]
    assert await pool_consumer.names(admin) == ["default", "gpu"]


async def test_a_pool_that_nobody_looks_after_is_said_to_be_unattended(admin: JetStreamBus) -> None:
    await _apply(admin, "default")
    (default, gpu) = await pool_state.read_all(admin, time.time())
    assert (default.state, default.desired, default.pending) == ("unattended", 1, 0)
    assert (gpu.entry, gpu.state, gpu.message) == (None, "empty", pool_state.UNDOCUMENTED)
    with pytest.raises(NotThere):
        await pool_state.read(admin, "nobody", time.time())


async def _apply(bus: JetStreamBus, name: str) -> None:
    source = plain(name, 1)
    pool = compile_pool(source).document
    assert pool is not None
    await pools.apply(bus, pool, source, "ada", time.time())


class Server:
    """An embedded server with the accounts of its pools kept, and someone who works all the time."""

    def __init__(self, folder: Path) -> None:
        self.server = NatsServer(folder)
        self.changes = 0
        self.stop = asyncio.Event()

    async def open(self) -> None:
        await asyncio.to_thread(self.server.start)
        self.admin = await connect(self.server.url_for("admin"))
        await ensure(self.admin, topology.wanted())
        settings = Settings(
            nats_url=self.server.url, nats_user="admin", nats_password=self.server.passwords["admin"]
        )
        self.accounts = PoolAccounts(ReloadedAccounts(self.server, settings), settings, ("default",), self._changed)
        await self.accounts.begin()
        self.keeping = asyncio.create_task(self.accounts.keep(self.stop))

    def _changed(self) -> None:
        self.changes += 1

    async def close(self) -> None:
        self.stop.set()
        await self.keeping
        await self.admin.close()
        await asyncio.to_thread(self.server.stop)

    async def until(self, *names: str) -> None:
        await until(lambda: set(self.accounts.pools), f"accounts of {names}", 20.0, so=lambda now: now == set(names))


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    found = Server(tmp_path)
    await found.open()
    try:
        yield found
    finally:
        await found.close()


async def test_a_new_pool_gets_its_account_while_others_work_on(server: Server) -> None:
    worker = await connect(server.server.url_for("worker_default"))
    taken: list[str] = []

    async def work() -> None:
        consumer = await worker.consume(topology.COMMANDS, "default", 8)
        while True:
            for delivery in await consumer.batch(8):
                taken.append(delivery.subject)
                await delivery.ack()

    working = asyncio.create_task(work())
    created = await server.admin.created(topology.COMMANDS)
    try:
        sent = 0
        await _apply(server.admin, "etl")
        while set(server.accounts.pools) != {"default", "etl"}:
            await server.admin.append(SUBJECT.format(sent), b"x")
            sent += 1
        await until(lambda: len(taken), f"{sent} commands are taken", 20.0, so=lambda count: count >= sent)
        assert len(set(taken)) == sent > 0
        assert (worker.connections, server.admin.connections) == (1, 1), "someone was cut off"
        assert await server.admin.created(topology.COMMANDS) == created
        await _is_served(server, "etl")
    finally:
        working.cancel()
        await worker.close()
    assert server.changes == 1


async def _is_served(server: Server, pool: str) -> None:
    """Its worker takes commands, reports, and hears which runs are to stop."""
    worker = await connect(server.server.url_for(f"worker_{pool}"))
    try:
        stops = await worker.subscribe(f"noetl.stops.{pool}")
        consumer = await worker.consume(topology.COMMANDS, pool, 1)
        await server.admin.append(f"noetl.commands.{pool}.x.r1", b"m")
        (delivery,) = await asyncio.wait_for(consumer.batch(1), 10)
        assert delivery.data == b"m"
        await worker.append(f"noetl.events.0.x.worker.{pool}", b"done")
        await worker.kv_put(topology.WORKERS, f"{pool}.w", b"{}")
        await server.admin.publish(f"noetl.stops.{pool}", b"s")
        assert await asyncio.wait_for(stops.next(), 5) == b"s"
        with pytest.raises(Refused):
            await worker.append("noetl.events.0.x.router", b"no")
    finally:
        await worker.close()


async def test_the_account_of_a_deleted_pool_goes(server: Server) -> None:
    await _apply(server.admin, "etl")
    await server.until("default", "etl")
    url = server.server.url_for("worker_etl")
    await (await connect(url)).close()
    await pools.delete(server.admin, "etl")
    await server.until("default")
    with pytest.raises(NoetlError):
        await connect(url)
