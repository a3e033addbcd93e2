"""A service is ready while it has a connection to the broker: it says when it has none, and comes back by itself."""

import asyncio
from pathlib import Path

from shared.bus.jetstream import connect
from shared.runtime.embedded.nats_server import NatsServer
from shared.runtime.service.clock import SystemClock
from shared.runtime.service.health import Health
from shared.runtime.service.main import OK, hold
from shared.runtime.service.settings import Settings
from tests.support.services import obedient
from tests.support.waiting import until


async def test_a_service_without_the_broker_is_not_ready(tmp_path: Path) -> None:
    server, health, stop = NatsServer(tmp_path).start(), Health(), asyncio.Event()
    try:
        bus = await connect(server.url_for("admin"))
        try:
            held = asyncio.create_task(hold("x", obedient, bus, Settings(), SystemClock(), stop, health))
            await until(lambda: health.able, "it is ready")
            server.stop()
            said = (503, "not ready: no connection to the broker")
            await until(lambda: health.readiness() == said, "it says why not",
                        instead=health.readiness)
            server.start()
            await until(lambda: health.able, "it is ready again", instead=health.readiness)
            stop.set()
            assert await held == OK
        finally:
            await bus.close()
    finally:
        server.stop()
