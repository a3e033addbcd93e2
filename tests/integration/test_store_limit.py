"""A real broker whose store gets full: new executions are refused or kept, those that run come to their end, and
everything goes on when there is room again."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from services.router import capacity
from services.router.service import serve
from shared.bus import topology
from shared.bus.jetstream import JetStreamBus, connect
from shared.bus.streams import ensure
from shared.events import subjects
from shared.events.headers import REPLY_TO
from shared.events.request import Request
from shared.runtime.embedded.nats_server import NatsServer
from shared.runtime.service.clock import SystemClock
from shared.runtime.service.health import Health, is_of
from shared.runtime.service.settings import Settings
from shared.runtime.stores.execution_status import standing
from tests.chaos.driving.support import register
from tests.support.waiting import until

LIMIT = 12_000_000
BALLAST = 100_000
WITHIN_S = 30.0
NOOP = b"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: noop, path: noop}
workflow: [{step: start, tool: {kind: noop}}]
"""


@pytest.fixture
async def admin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[JetStreamBus]:
    monkeypatch.setattr(capacity, "EVERY_S", 0.05)
    monkeypatch.setattr("services.router.requests.HOLD_S", 0.5)
    server = NatsServer(tmp_path)
    server.max_file_store = LIMIT
    server.configure(("default",))
    server.start()
    health, stop = Health(), asyncio.Event()
    bus, router = await connect(server.url_for("admin")), await connect(server.url_for("router"))
    bus.health = health  # type: ignore[attr-defined]
    try:
        await ensure(bus, topology.wanted())
        await register(bus, NOOP)
        is_of(health)
        running = serve(router, Settings(instance="r"), clock=SystemClock(), stop=stop, ready=health.mark_ready)
        task = asyncio.create_task(running)
        yield bus
        stop.set()
        await task
    finally:
        await router.close()
        await bus.close()
        server.stop()


async def ask(bus: JetStreamBus, execution_id: str) -> dict[str, object]:
    inbox = await bus.subscribe(name := f"_INBOX_admin.{execution_id}")
    request = msgspec.json.encode(Request("noop", execution_id=execution_id))
    await bus.append(subjects.EXECUTE, request, headers={REPLY_TO: name})
    async with asyncio.timeout(WITHIN_S):
        answer: dict[str, object] = msgspec.json.decode(await inbox.next())
    await inbox.close()
    return answer


async def test_new_executions_are_refused_while_the_store_is_nearly_full(admin: JetStreamBus) -> None:
    health: Health = admin.health  # type: ignore[attr-defined]
    assert (await ask(admin, "before"))["status"] == "started"
    await until(lambda: health.able, "able again", WITHIN_S)

    count = 0
    while (found := await admin.storage()).limit - found.used > capacity.margin(LIMIT) - BALLAST:
        await admin.append(f"{subjects.RESULTS}.ballast.{count}.0", b"x" * BALLAST)
        count += 1
    assert found.limit == LIMIT
    await until(lambda: not health.able, "no longer able", WITHIN_S)
    assert "the broker's store is nearly full" in health.answer("GET", "/readyz")[1]

    refused = await ask(admin, "refused")
    assert refused["status"] == "failed"
    assert refused["error"]["kind"] == "capacity"  # type: ignore[index]
    assert await standing(admin, "refused", topology.PARTITIONS) == "unknown"
    await admin.append(subjects.EXECUTE, msgspec.json.encode(Request("noop", execution_id="kept")))
    await admin.kv_put(topology.CURSORS, "of.someone", b"{}")  # what runs is written all the same
    await asyncio.sleep(1.0)
    assert await standing(admin, "kept", topology.PARTITIONS) == "unknown"

    await admin.requests.api(f"STREAM.PURGE.{topology.RESULTS}", {"filter": f"{subjects.RESULTS}.ballast.>"})
    await until(lambda: health.able, "able again", WITHIN_S)
    assert (await ask(admin, "after"))["status"] == "started"
    await until(lambda: standing(admin, "kept", topology.PARTITIONS), "a request that was kept is taken", WITHIN_S,
                so=lambda found: found != "unknown")
