"""What the proxy between a service and the broker does to a connection."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.servers.proxy import HOST, Proxy

SOON_S = 5.0
QUIET_S = 0.2


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    """In front of a server that says everything twice."""

    async def twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(100):
                writer.write(data + data)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(twice, HOST, 0)
    try:
        async with Proxy(1, server.sockets[0].getsockname()[1]) as proxy:
            yield proxy
    finally:
        server.close()


async def heard(reader: asyncio.StreamReader, count: int, within_s: float = SOON_S) -> bytes:
    async with asyncio.timeout(within_s):
        return await reader.readexactly(count)


async def test_bytes_pass_to_the_first_target_that_answers(proxy: Proxy) -> None:
    reader, writer = await asyncio.open_connection(HOST, proxy.port)
    writer.write(b"ab")
    assert await heard(reader, 4) == b"abab"
    writer.close()


async def test_a_reset_is_heard_and_a_new_connection_is_taken(proxy: Proxy) -> None:
    reader, writer = await asyncio.open_connection(HOST, proxy.port)
    writer.write(b"a")
    await heard(reader, 2)
    assert proxy.reset() == 1
    with pytest.raises(ConnectionResetError):
        await heard(reader, 1)
    writer.close()
    reader, writer = await asyncio.open_connection(HOST, proxy.port)
    writer.write(b"b")
    assert await heard(reader, 2) == b"bb"
    writer.close()


@pytest.mark.parametrize("direction", ["up", "down"])
async def test_what_is_kept_back_arrives_late(proxy: Proxy, direction: str) -> None:
    reader, writer = await asyncio.open_connection(HOST, proxy.port)
    writer.write(b"a")
    await heard(reader, 2)
    proxy.silence(up=direction == "up", down=direction == "down")
    writer.write(b"b")
    with pytest.raises(TimeoutError):
        await heard(reader, 1, QUIET_S)
    proxy.heal()
    assert await heard(reader, 2) == b"bb"
    writer.close()


async def test_a_connection_made_in_silence_hears_nothing_until_it_ends(proxy: Proxy) -> None:
    proxy.silence()
    reader, writer = await asyncio.open_connection(HOST, proxy.port)
    writer.write(b"c")
    with pytest.raises(TimeoutError):
        await heard(reader, 1, QUIET_S)
    proxy.heal()
    assert await heard(reader, 2) == b"cc"
    writer.close()


async def test_a_proxy_that_refuses_resets_new_connections_too(proxy: Proxy) -> None:
    proxy.refuse()
    reader, _ = await asyncio.open_connection(HOST, proxy.port)
    with pytest.raises(ConnectionError):
        await heard(reader, 1)
    proxy.heal()
    reader, writer = await asyncio.open_connection(HOST, proxy.port)
    writer.write(b"d")
    assert await heard(reader, 2) == b"dd"
    writer.close()
