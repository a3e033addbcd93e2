"""A connection that is reset under its writer, on the event loop that services use."""

import asyncio

import uvloop

from shared.bus.jetstream import JetStreamBus, connect
from shared.errors import NoetlError
from shared.runtime.embedded.nats_server import NatsServer


async def _reset(server: NatsServer) -> None:
    bus = await connect(server.url, user="admin", password=server.passwords["admin"])
    try:
        connection = bus.connection
        transport = connection._transport
        assert transport is not None
        transport._bare_io_writer.transport.abort()  # type: ignore[attr-defined]
        assert connection.is_connected, "nobody has noticed yet"
        await _asked(bus)
        for _ in range(100):
            try:
                transport.write(b"PING\r\n")
            except OSError:
                return
            await asyncio.sleep(0)
        raise AssertionError("a closed socket takes what is written")
    finally:
        await bus.close()


async def _asked(bus: JetStreamBus) -> None:
    """Whatever is asked at that moment comes to an answer or to an error that the services know."""
    results = await asyncio.gather(
        bus.append("noetl.requests.execute", b"{}"), bus.read("NOETL_REQUESTS", ["noetl.requests.>"]), bus.time(),
        bus.subscribe("noetl.members.x"), return_exceptions=True)
    strange = [each for each in results if isinstance(each, BaseException) and not isinstance(each, NoetlError)]
    assert strange == []


def test_what_is_asked_of_a_connection_that_was_just_reset_is_no_internal_error(nats_server: NatsServer) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_reset(nats_server))
