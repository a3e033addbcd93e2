"""The health endpoint speaks enough HTTP for a prober, and no more."""

import asyncio

import pytest

from shared.runtime.service.health import MAX_REQUEST_BYTES, Health, endpoint, is_of, page


async def ask(port: int, request: bytes) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = (await asyncio.wait_for(reader.read(), 5)).decode()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split(" ")[1]), body.strip()


async def test_alive_at_once_and_ready_only_when_said_and_not_stopping() -> None:
    health = Health()
    async with endpoint(health, 0, "127.0.0.1") as port:
        assert await ask(port, b"GET /livez HTTP/1.1\r\n\r\n") == (200, "alive")
        assert await ask(port, b"GET /readyz HTTP/1.1\r\n\r\n") == (503, "not ready")
        health.mark_ready()
        assert await ask(port, b"GET /readyz?verbose=1 HTTP/1.1\r\nHost: x\r\n\r\n") == (200, "ready")
        health.mark_stopping()
        assert await ask(port, b"GET /readyz HTTP/1.1\r\n\r\n") == (503, "not ready")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"POST /livez HTTP/1.1\r\n\r\n", 405),
        (b"nonsense\r\n\r\n", 400),
        (b"GET /" + b"a" * (2 * MAX_REQUEST_BYTES), 400),
    ],
)
async def test_anything_else_is_refused(request_bytes: bytes, status: int) -> None:
    async with endpoint(Health(), 0, "127.0.0.1") as port:
        assert (await ask(port, request_bytes))[0] == status


async def test_head_has_no_body() -> None:
    async with endpoint(Health(), 0, "127.0.0.1") as port:
        assert await ask(port, b"HEAD /livez HTTP/1.1\r\n\r\n") == (200, "")


async def test_a_service_answers_more_than_that_under_a_name_of_its_own() -> None:
    async def demand(rest: str) -> tuple[int, str]:
        return (200, '{"demand": 3}') if rest == "etl" else (404, "{}")

    health = Health()
    is_of(health)
    page("demand", demand)
    async with endpoint(health, 0, "127.0.0.1") as port:
        assert await ask(port, b"GET /demand/etl HTTP/1.1\r\n\r\n") == (200, '{"demand": 3}')
        assert await ask(port, b"GET /demand/etl?x=1 HTTP/1.1\r\n\r\n") == (200, '{"demand": 3}')
        assert await ask(port, b"GET /demand HTTP/1.1\r\n\r\n") == (404, "{}")
        assert (await ask(port, b"POST /demand/etl HTTP/1.1\r\n\r\n"))[0] == 405
        assert await ask(port, b"GET /livez HTTP/1.1\r\n\r\n") == (200, "alive")
