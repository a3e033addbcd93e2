"""Workers that are stopped for a while and not killed, with the leases of the product: one worker at a time is inside
a run, and one lost lease explains at most one call that is made twice."""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from shared.bus import pool_consumer, topology
from shared.bus.jetstream import JetStreamBus
from shared.bus.streams import ensure
from tests.chaos.driving.log import Log, check, start
from tests.chaos.driving.support import POOL, READY_S, Cluster, Process
from tests.support.suite.long import long

SIZES = {"router": 1, "scheduler": 1, "worker": 2, "projector": 1}
CALL_S = 2.5
TASKS = ("one", "two", "three", "four")
# A lease of 15 s is nearly over; it is over, and the command has come again.
CASES = [("chaos/four", 12.5), long("chaos/four", 20.0), long("chaos/four_local", 20.0)]


class Desk:
    """Takes the calls: which came, and how many were inside at the same time."""

    def __init__(self) -> None:
        self.url = ""
        self.calls: list[str] = []
        self.most = 0
        self._inside = 0

    async def answer(self, request: web.Request) -> web.Response:
        self.calls.append(request.query["task"])
        self._inside += 1
        self.most = max(self.most, self._inside)
        try:
            await asyncio.sleep(CALL_S)
        finally:
            self._inside -= 1
        return web.json_response({"task": request.query["task"]})


@asynccontextmanager
async def desk() -> AsyncIterator[Desk]:
    """A caller that goes away is not inside any more."""
    opened = Desk()
    app = web.Application()
    app.router.add_get("/", opened.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        opened.url = "http://{}:{}/".format(*runner.addresses[0][:2])
        yield opened
    finally:
        await runner.cleanup()


@asynccontextmanager
async def stopped(worker: Process) -> AsyncIterator[None]:
    worker.send(signal.SIGSTOP)
    try:
        yield
    finally:
        worker.send(signal.SIGCONT)


@pytest.fixture(scope="module", autouse=True)
def real_leases(cluster: Cluster) -> None:
    async def apply() -> None:
        bus = await cluster.connect()
        try:
            await ensure(bus, topology.wanted((POOL,)), apply=True)
        finally:
            await bus.close()

    asyncio.run(apply())


@pytest.mark.parametrize(("path", "pause_s"), CASES)
async def test_a_worker_stopped_as_it_is_given_a_command_makes_no_call_twice(
    cluster: Cluster, bus: JetStreamBus, path: str, pause_s: float
) -> None:
    log, run = await Log.open(bus), _name("given", path, pause_s)
    first, second = cluster.of("worker")
    assert await cluster.stop(second.name) == 0
    async with desk() as server:
        async with stopped(first):
            await start(bus, path, {run: {"api_url": server.url, "run": run}})
            until = await _given(bus) + pause_s
            second.start()
            await second.ready()
            await asyncio.sleep(until - time.monotonic())
        await log.until_over([run])
        await check(log, [run])
        assert Counter(server.calls) == dict.fromkeys(TASKS, 1)
        assert server.most == 1


@pytest.mark.parametrize(("path", "pause_s"), CASES)
async def test_a_worker_stopped_in_a_call_costs_at_most_that_call(
    cluster: Cluster, bus: JetStreamBus, path: str, pause_s: float
) -> None:
    log, run = await Log.open(bus), _name("inside", path, pause_s)
    first, second = cluster.of("worker")
    assert await cluster.stop(second.name) == 0
    async with desk() as server:
        await start(bus, path, {run: {"api_url": server.url, "run": run}})
        await log.until(lambda _: len(server.calls) == 2, "the second call")
        async with stopped(first):
            until = time.monotonic() + pause_s
            second.start()
            await second.ready()
            await asyncio.sleep(until - time.monotonic())
        await log.until_over([run])
        await check(log, [run])
        assert Counter(server.calls) - Counter(TASKS) in (Counter(), Counter(two=1))
        assert server.most == 1


def _name(when: str, path: str, pause_s: float) -> str:
    return f"{when}-{path.replace('/', '-')}-{1000 * pause_s:.0f}"


async def _given(bus: JetStreamBus) -> float:
    """When a worker was given the command."""
    async with asyncio.timeout(READY_S):
        while True:
            queue = await pool_consumer.look(bus, POOL)
            if queue is not None and queue.in_flight:
                return time.monotonic()
            await asyncio.sleep(0.02)
