"""`kind: http` against a real server."""

import asyncio
import base64
import gzip
import socket

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from shared.tools.http import tool as http_module
from tests.support.calls import call
from tests.support.servers.tls import untrusted_server_context


async def test_json_answers_are_decoded_and_headers_are_lower_case(site, opened) -> None:
    url = site.on("/a", lambda: web.json_response({"items": [1]}, headers={"X-Total": "7"}))
    outcome = await opened("http").run(call({"url": url}))
    assert outcome.shape == "http"
    assert outcome.result["status_code"] == 200
    assert outcome.result["data"] == {"items": [1]}
    assert outcome.result["headers"]["x-total"] == "7"
    assert outcome.http["status"] == 200


async def test_an_answer_says_where_it_comes_from_without_what_may_be_a_credential(site, opened) -> None:
    last = site.on("/b", lambda: web.json_response({}))
    first = site.on("/a", lambda: web.Response(status=302, headers={"Location": f"{last}?key=secret"}))
    outcome = await opened("http").run(call({"url": first.replace("//", "//user:secret@"), "params": {"token": "t"}}))
    assert outcome.result["url"] == last


@pytest.mark.parametrize(("body", "kind", "data"), [
    (b"hello", "text/plain", "hello"),
    ("grüß".encode("latin-1"), "text/plain; charset=latin-1", "grüß"),
    (b"\x00\xff", "application/octet-stream", base64.b64encode(b"\x00\xff").decode()),
    (b'{"a":1}', "application/problem+json", {"a": 1}),
    (b"", "application/json", None),
])
async def test_the_payload_follows_the_content_type(site, opened, body, kind, data) -> None:
    url = site.on("/a", lambda: web.Response(body=body, headers={"Content-Type": kind}))
    assert (await opened("http").run(call({"url": url}))).result["data"] == data


async def test_an_answer_that_is_not_the_json_it_says_is_an_error_with_its_text(site, opened) -> None:
    url = site.on("/a", lambda: web.Response(text="<html>", content_type="application/json"))
    outcome = await opened("http").run(call({"url": url}))
    assert outcome.error["kind"] == "decode"
    assert outcome.result["data"] == "<html>"


@pytest.mark.parametrize(("status", "retryable"), [(400, False), (404, False), (408, True), (429, True), (503, True)])
async def test_a_status_of_400_or_more_is_an_error_that_keeps_the_answer(site, opened, status, retryable) -> None:
    url = site.on("/a", lambda: web.json_response({"why": "x"}, status=status))
    outcome = await opened("http").run(call({"url": url}))
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("http", retryable)
    assert outcome.http["status"] == status
    assert outcome.result["data"] == {"why": "x"}


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST"])
@pytest.mark.parametrize("kept", [False, True])  # the connection was used before
async def test_a_dropped_connection_is_one_request(opened, method: str, kept: bool) -> None:
    heard: list[bytes] = []

    async def drop(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            heard.append(line.split()[0])
            while (await reader.readline()).strip():
                pass
            if kept and len(heard) == 1:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
            else:
                break
        writer.close()

    server = await asyncio.start_server(drop, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        tool = opened("http")
        if kept:
            assert (await tool.run(call({"url": url}))).http["status"] == 200
        outcome = await tool.run(call({"url": url, "method": method}))
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("connect", True)
    assert heard == [*([b"GET"] if kept else []), method.encode()]


async def test_no_answer_has_a_status_of_none(opened) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    outcome = await opened("http").run(call({"url": f"http://user:secret@127.0.0.1:{port}/p?key=secret"}))
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("connect", True)
    assert outcome.http == {"status": None, "headers": {}}
    assert "secret" not in outcome.error["message"]


async def test_a_server_that_hangs_up_is_a_connect_error(opened) -> None:
    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    outcome = await opened("http").run(call({"url": f"http://127.0.0.1:{port}/"}))
    server.close()
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("connect", True)


async def test_the_read_timeout_of_the_spec_is_kept(site, opened) -> None:
    outcome = await opened("http").run(call({"url": site.hang("/a")}, spec={"timeout": {"connect": 5, "read": 0.2}}))
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("timeout", True)
    assert outcome.http == {"status": None, "headers": {}}


async def test_a_cancelled_request_is_aborted_at_the_server(site, opened) -> None:
    running = asyncio.create_task(opened("http").run(call({"url": site.hang("/a")})))
    await asyncio.sleep(0.2)
    running.cancel()
    await asyncio.wait_for(site.gone.wait(), 5)
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_params_of_any_type_are_written_sanely(site, opened) -> None:
    url = site.on("/a", lambda: web.Response())
    params = {"page": 2, "all": True, "none": None, "tag": ["x", "y z"], "f": 1.5}
    await opened("http").run(call({"url": url + "?keep=1", "params": params}))
    assert site.requests[0]["query"] == "keep=1&page=2&all=true&tag=x&tag=y+z&f=1.5"


@pytest.mark.parametrize(("config", "body", "kind"), [
    ({"body": {"a": 1}}, '{"a":1}', "application/json"),
    ({"data": [1]}, "[1]", "application/json"),
    ({"json": "text"}, '"text"', "application/json"),
    ({"body": "raw"}, "raw", "application/octet-stream"),
    ({"body": {"a": 1, "b": "x y"}, "headers": {"Content-Type": "application/x-www-form-urlencoded"}},
     "a=1&b=x+y", "application/x-www-form-urlencoded"),
])
async def test_bodies_are_sent_as_their_type_says(site, opened, config, body, kind) -> None:
    url = site.on("/a", lambda: web.Response())
    await opened("http").run(call({"url": url, "method": "post", **config}))
    assert site.requests[0]["body"] == body
    assert site.requests[0]["headers"]["content-type"] == kind


async def test_changing_requests_carry_the_idempotency_key_and_reads_do_not(site, opened) -> None:
    url = site.on("/a", lambda: web.Response())
    tool = opened("http")
    await tool.run(call({"url": url, "method": "POST"}, key="r/t/1"))
    await tool.run(call({"url": url}))
    await tool.run(call({"url": url, "method": "PUT", "headers": {"idempotency-key": "mine"}}))
    assert [request["headers"].get("idempotency-key") for request in site.requests] == ["r/t/1", None, "mine"]


@pytest.mark.parametrize(("auth", "header", "value"), [
    ({"token": "tok-123"}, "authorization", "Bearer tok-123"),
    ({"username": "u", "password": "pass"}, "authorization", "Basic dTpwYXNz"),
    ({"headers": {"X-Api-Key": "key-123"}}, "x-api-key", "key-123"),
])
async def test_credentials_become_headers(site, opened, auth, header, value) -> None:
    url = site.on("/a", lambda: web.Response())
    await opened("http").run(call({"url": url}, auth=auth))
    assert site.requests[0]["headers"][header] == value


async def test_a_redirect_to_another_origin_does_not_take_the_credential_along(site, other_site, opened) -> None:
    there = other_site.on("/b", lambda: web.Response())
    url = site.on("/a", lambda: web.Response(status=307, headers={"Location": there}))
    await opened("http").run(call({"url": url}, auth={"headers": {"X-Api-Key": "key-123"}}))
    assert "x-api-key" in site.requests[0]["headers"]
    assert "x-api-key" not in other_site.requests[0]["headers"]


async def test_a_post_that_is_redirected_reads_with_get(site, opened) -> None:
    site.on("/b", lambda: web.json_response("there"))
    url = site.on("/a", lambda: web.Response(status=303, headers={"Location": "/b"}))
    outcome = await opened("http").run(call({"url": url, "method": "POST", "body": {"a": 1}}))
    assert outcome.result["data"] == "there"
    assert (site.requests[1]["method"], site.requests[1]["body"]) == ("GET", "")


async def test_redirects_are_bounded_and_can_be_turned_off(site, opened) -> None:
    url = site.on("/a", lambda: web.Response(status=302, headers={"Location": "/a"}))
    tool = opened("http")
    outcome = await tool.run(call({"url": url}))
    assert outcome.error["kind"] == "redirect"
    assert len(site.requests) == http_module.MAX_REDIRECTS + 1
    assert (await tool.run(call({"url": url}, spec={"follow_redirects": False}))).http["status"] == 302


async def test_a_body_over_the_limit_is_refused_also_when_compressed(site, opened, monkeypatch) -> None:
    monkeypatch.setattr(http_module, "RESULT_LIMIT", 1000)
    packed = gzip.compress(b"x" * 100_000)
    url = site.on("/a", lambda: web.Response(body=packed, headers={"Content-Encoding": "gzip"}))
    outcome = await opened("http").run(call({"url": url}))
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("limit", False)


async def test_cookies_of_one_call_do_not_reach_the_next(site, opened) -> None:
    url = site.on("/a", lambda: web.Response(headers={"Set-Cookie": "session=1"}))
    tool = opened("http")
    await tool.run(call({"url": url}))
    await tool.run(call({"url": url}))
    assert "cookie" not in site.requests[1]["headers"]


@pytest.mark.parametrize("config", [
    {"url": "ftp://host/x"}, {"url": "/relative"}, {"url": "http://127.0.0.1/", "method": "FETCH"},
    {"url": "http://127.0.0.1/", "json": 1, "body": 2}, {"url": "http://127.0.0.1/", "headers": "x"},
    {"url": "http://127.0.0.1:1/", "headers": {"a": "b\r\nc: d"}},
    *({"url": "http://127.0.0.1:1/", "method": "POST", "json": {"a": 1}, "headers": headers} for headers in (
        {"X y": "1"}, {"X {{ k }}": "1"}, {"": "1"}, {"a:": "1"}, {"é": "1"}, {"a\nb": "1"},
        {"Transfer-Encoding": "chunked"}, {"content-length": "1"})),
])
async def test_a_request_that_makes_no_sense_is_not_sent(opened, config) -> None:
    outcome = await opened("http").run(call(config))
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("config", False)


async def test_an_untrusted_certificate_is_refused_unless_the_spec_says_otherwise(opened, tmp_path) -> None:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.json_response("here")

    app = web.Application()
    app.router.add_get("/", answer)
    server = TestServer(app, host="127.0.0.1")
    await server.start_server(ssl=untrusted_server_context(tmp_path))
    tool = opened("http")
    url = f"https://127.0.0.1:{server.port}/"
    refused = await tool.run(call({"url": url}))
    accepted = await tool.run(call({"url": url}, spec={"verify": False}))
    await server.close()
    assert (refused.error["kind"], refused.error["retryable"]) == ("tls", False)
    assert accepted.result["data"] == "here"


# -- its own retries (V10 §9.1) -------------------------------------------------------------------

TWICE = {"retry": {"attempts": 3, "delay": 0}}


def failing(site, path: str, times: int, status: int = 503) -> str:
    """An address that fails so often before it works."""
    return site.on(path, lambda: web.json_response({"a": 1}, status=status if len(site.requests) <= times else 200))


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS"])
async def test_what_may_be_asked_twice_is_sent_again_within_the_call(site, opened, method) -> None:
    outcome = await opened("http").run(call({"url": failing(site, "/a", 2), "method": method}, spec=TWICE))
    assert (outcome.status, outcome.http["status"], outcome.http["attempts"]) == ("ok", 200, 3)
    assert len(site.requests) == 3
    assert len({each["headers"].get("idempotency-key") for each in site.requests}) == 1


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_what_may_not_be_asked_twice_is_sent_once(site, opened, method) -> None:
    outcome = await opened("http").run(call({"url": failing(site, "/a", 2), "method": method, "json": {}}, spec=TWICE))
    assert (outcome.http["status"], outcome.http["attempts"], len(site.requests)) == (503, 1, 1)


@pytest.mark.parametrize(("status", "sent"), [(400, 1), (404, 1), (409, 1), (408, 3), (425, 3), (429, 3), (500, 3)])
async def test_only_what_may_be_another_next_time_is_sent_again(site, opened, status, sent) -> None:
    outcome = await opened("http").run(call({"url": failing(site, "/a", 9, status)}, spec=TWICE))
    assert (outcome.error["kind"], outcome.http["attempts"], len(site.requests)) == ("http", sent, sent)


async def test_a_server_that_cannot_be_reached_is_tried_again(opened) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    outcome = await opened("http").run(call({"url": f"http://127.0.0.1:{port}/"}, spec=TWICE))
    assert (outcome.error["kind"], outcome.http["attempts"]) == ("connect", 3)


async def test_all_attempts_together_have_the_time_of_the_call(site, opened) -> None:
    spec = {"retry": {"attempts": 5, "delay": 5}, "timeout": 0.5}
    started = asyncio.get_running_loop().time()
    outcome = await opened("http").run(call({"url": failing(site, "/a", 9)}, spec=spec))
    assert (outcome.error["kind"], outcome.http) == ("timeout", {"status": None, "headers": {}, "attempts": 1})
    assert asyncio.get_running_loop().time() - started < 3


async def test_without_retry_a_call_is_one_request_and_says_no_number(site, opened) -> None:
    outcome = await opened("http").run(call({"url": failing(site, "/a", 2)}))
    assert ("attempts" in outcome.http, len(site.requests)) == (False, 1)


@pytest.mark.parametrize("retry", [
    3, {"times": 3}, {"attempts": 0}, {"attempts": 6}, {"attempts": True}, {"attempts": "3"}, {"delay": -1},
    {"delay": 6},
])
async def test_a_retry_that_cannot_be_is_told(site, opened, retry) -> None:
    outcome = await opened("http").run(call({"url": failing(site, "/a", 2)}, spec={"retry": retry}))
    assert (outcome.error["kind"], "spec.retry" in outcome.error["message"]) == ("config", True)
    assert site.requests == []
