"""`kind: nats` on a real server."""

import asyncio
import base64
import uuid
from collections.abc import AsyncIterator
from typing import Any

import nats
import pytest
from nats.js.api import KeyValueConfig, StreamConfig

from shared.tools.base.contract import ToolOptions
from shared.tools.nats import links as nats_links
from shared.tools.nats import operations as nats_ops
from shared.tools.nats.tool import NAMES, NatsTool
from tests.support.calls import call
from tests.support.servers.own_nats import MAX_PAYLOAD, OwnNats, running_nats
from tests.support.waiting import until


@pytest.fixture
async def client(own_nats: OwnNats) -> AsyncIterator[Any]:
    given = own_nats.credential()
    one = await nats.connect(given["url"], user=given["user"], password=given["password"])
    yield one
    await one.close()


@pytest.fixture
async def bucket(client) -> AsyncIterator[str]:
    name = f"b{uuid.uuid4().hex}"
    await client.jetstream().create_key_value(config=KeyValueConfig(name, history=5))
    yield name
    await client.jetstream().delete_key_value(name)


@pytest.fixture
async def do(opened, own_nats: OwnNats):
    tool = opened("nats")

    async def run(operation: str, **config: Any):
        return await tool.run(call({"operation": operation, **config}, auth=own_nats.credential()))

    return run


def test_the_operations_of_the_language_are_the_ones_there_are() -> None:
    assert set(NAMES) == set(nats_ops.OPERATIONS)


@pytest.mark.parametrize("value", [{"user": 1, "roles": ["a"]}, [1, {"a": None}], "text", "1", "", "{not json"])
async def test_a_value_put_is_the_value_got(do, bucket, value) -> None:
    put = await do("kv_put", bucket=bucket, key="a.b", value=value)
    assert put.result == {"status": "success", "bucket": bucket, "key": "a.b", "revision": 1}
    got = await do("kv_get", bucket=bucket, key="a.b")
    assert got.result == {"status": "success", "bucket": bucket, "key": "a.b", "value": value, "revision": 1}


async def test_a_key_that_is_not_there_is_an_answer(do, bucket) -> None:
    await do("kv_put", bucket=bucket, key="a", value=1)
    for operation in ("kv_delete", "kv_purge"):
        assert (await do(operation, bucket=bucket, key="a")).status == "ok"
        got = await do("kv_get", bucket=bucket, key="a")
        assert (got.status, got.result["status"], got.result["value"]) == ("ok", "not_found", None)


async def test_keys_are_listed_by_pattern(do, bucket) -> None:
    assert (await do("kv_keys", bucket=bucket)).result["keys"] == []
    for key in ("a.1", "a.2", "b.1", "gone"):
        await do("kv_put", bucket=bucket, key=key, value=1)
    await do("kv_delete", bucket=bucket, key="gone")
    assert (await do("kv_keys", bucket=bucket)).result["keys"] == ["a.1", "a.2", "b.1"]
    found = (await do("kv_keys", bucket=bucket, pattern="a.*")).result
    assert (found["keys"], found["count"]) == (["a.1", "a.2"], 2)


async def test_the_number_of_keys_is_bounded(do, bucket, monkeypatch) -> None:
    monkeypatch.setattr(nats_ops, "MAX_KEYS", 1)
    for key in ("a", "b"):
        await do("kv_put", bucket=bucket, key=key, value=1)
    assert (await do("kv_keys", bucket=bucket)).error["kind"] == "limit"


async def test_a_key_may_live_for_a_time(do, bucket) -> None:
    assert (await do("kv_put", bucket=bucket, key="a", value=1, ttl=1)).status == "ok"
    for _ in range(60):
        if (await do("kv_get", bucket=bucket, key="a")).result["status"] == "not_found":
            break
        await asyncio.sleep(0.05)
    else:
        raise AssertionError("the key is still there")
    assert (await do("kv_put", bucket=bucket, key="a", value=1, ttl="soon")).error["kind"] == "config"


async def test_bytes_go_as_base64(do, bucket) -> None:
    raw = base64.b64encode(b"\xff\0").decode()
    await do("kv_put", bucket=bucket, key="a", value=raw, encoding="base64")
    assert (await do("kv_get", bucket=bucket, key="a", encoding="base64")).result["value"] == raw
    assert (await do("kv_get", bucket=bucket, key="a")).error["kind"] == "config"
    assert (await do("kv_put", bucket=bucket, key="a", value="?", encoding="base64")).error["kind"] == "config"


async def test_json_when_it_is_asked_for(do, bucket) -> None:
    await do("kv_put", bucket=bucket, key="a", value=5)
    assert (await do("kv_get", bucket=bucket, key="a")).result["value"] == "5"
    assert (await do("kv_get", bucket=bucket, key="a", encoding="json")).result["value"] == 5
    await do("kv_put", bucket=bucket, key="a", value="no json")
    assert (await do("kv_get", bucket=bucket, key="a", encoding="json")).error["kind"] == "config"


async def test_objects_larger_than_a_message(do, client, monkeypatch) -> None:
    name = f"o{uuid.uuid4().hex}"
    await client.jetstream().create_object_store(name)
    big = "x" * (MAX_PAYLOAD * 2)
    assert (await do("object_put", bucket=name, key="dir/a b.txt", data=big)).result["size"] == len(big)
    got = (await do("object_get", bucket=name, key="dir/a b.txt")).result
    assert (got["data"], got["size"]) == (big, len(big))
    monkeypatch.setattr(nats_ops, "RESULT_LIMIT", 10)
    assert (await do("object_get", bucket=name, key="dir/a b.txt")).error["kind"] == "limit"
    for _ in range(2):
        assert (await do("object_delete", bucket=name, key="dir/a b.txt")).status == "ok"
    assert (await do("object_get", bucket=name, key="dir/a b.txt")).result["status"] == "not_found"


async def test_a_message_arrives_with_its_headers(do, client) -> None:
    inbox = await client.subscribe("open.news")
    await client.flush()
    assert (await do("publish", subject="open.news", payload={"a": 1}, headers={"X-A": 1})).status == "ok"
    message = await inbox.next_msg(timeout=5)
    assert (message.data, message.headers) == (b'{"a":1}', {"X-A": "1"})


async def test_a_request_gives_its_answer(do, client) -> None:
    async def answer(message: Any) -> None:
        await message.respond(b'{"got":"' + message.data + b'"}')

    await client.subscribe("open.ask", cb=answer)
    await client.flush()
    assert (await do("request", subject="open.ask", message="hi")).result["data"] == {"got": "hi"}
    nobody = await do("request", subject="open.nobody")
    assert (nobody.error["kind"], nobody.error["retryable"]) == ("nats", True)


async def test_a_stream_takes_the_same_call_once(do, client) -> None:
    name = f"s{uuid.uuid4().hex}"
    await client.jetstream().add_stream(StreamConfig(name, subjects=[f"{name}.>"]))
    first, again = [(await do("js_publish", subject=f"{name}.a", data={"n": 1}, stream=name)).result for _ in range(2)]
    assert (first["seq"], first["duplicate"], again["seq"], again["duplicate"]) == (1, False, 1, True)
    for which in ({"seq": 1}, {"subject": f"{name}.a"}):
        got = (await do("js_get_msg", stream=name, **which)).result
        assert (got["data"], got["subject"], got["seq"]) == ({"n": 1}, f"{name}.a", 1)
    assert (await do("js_get_msg", stream=name)).error["kind"] == "config"
    assert (await do("js_get_msg", stream=name, seq=99)).error["kind"] == "nats"
    assert (await do("js_publish", subject=f"{name}.a", data=1, stream="other")).error["kind"] == "nats"
    assert (await do("js_publish", subject="nobody.takes.it", data=1)).error["retryable"] is True


@pytest.mark.parametrize(("config", "kind"), [
    ({"operation": "kv_get", "bucket": "nowhere", "key": "a"}, "nats"),
    ({"operation": "kv_get", "bucket": "no where", "key": "a"}, "config"),
    ({"operation": "kv_get", "bucket": "b", "key": "a b"}, "config"),
    ({"operation": "kv_purge", "bucket": "b", "key": ">"}, "config"),
    ({"operation": "kv_get", "bucket": "b"}, "config"),
    ({"operation": "publish", "subject": "a b", "value": 1}, "config"),
    ({"operation": "publish", "subject": "a", "value": 1, "data": 2}, "config"),
    ({"operation": "publish", "subject": "a", "value": "x" * (MAX_PAYLOAD + 1)}, "limit"),
    ({"operation": "explode"}, "config"),
])
async def test_mistakes_are_told(do, config, kind) -> None:
    error = (await do(**config)).error
    assert (error["kind"], error["retryable"]) == (kind, False)


async def test_what_the_user_may_not_do_is_told_at_once(opened, own_nats: OwnNats) -> None:
    tool = opened("nats")
    for operation in ("publish", "request"):
        config = {"operation": operation, "subject": "Closed.To", "value": 1}
        error = (await tool.run(call(config, auth=own_nats.credential("narrow")))).error
        assert (error["kind"], error["retryable"]) == ("auth", False)
        assert "closed.to" in error["message"]
    allowed = await tool.run(call({"operation": "publish", "subject": "open.a"}, auth=own_nats.credential("narrow")))
    assert allowed.status == "ok"


async def test_a_wrong_password_is_told_and_not_shown(opened, own_nats: OwnNats) -> None:
    given = {**own_nats.credential(), "password": "wrong-password"}
    outcome = await opened("nats").run(call({"operation": "publish", "subject": "a"}, auth=given))
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("auth", False)
    assert "wrong-password" not in repr(outcome)


@pytest.mark.parametrize("auth", [None, {}, {"user": "a"}, {"url": "nats://x", "creds": "-----BEGIN"}])
async def test_without_a_server_or_with_what_is_not_supported_nothing_is_tried(opened, auth) -> None:
    outcome = await opened("nats").run(call({"operation": "publish", "subject": "a"}, auth=auth))
    assert outcome.error["kind"] == "config"


@pytest.mark.parametrize("url", ["nats://me:sec:ret@host:port", "http://ret:1", "nats://[ret", "nats://", "ret:0"])
async def test_an_address_that_is_none_is_a_mistake_and_not_repeated(opened, url) -> None:
    outcome = await opened("nats").run(call({"operation": "publish", "subject": "a"}, auth={"url": url}))
    assert outcome.error["kind"] == "config"
    assert "ret" not in outcome.error["message"]


async def test_no_server_there_is_a_connection_error_to_try_again(opened) -> None:
    outcome = await opened("nats").run(call({"operation": "publish", "subject": "a"}, auth={"url": "nats://127.0.0.1:1"}))
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("connect", True)
    assert outcome.error["message"].startswith("nats://127.0.0.1:1: ")


async def test_keys_of_the_task_go_before_the_credential(opened, own_nats: OwnNats) -> None:
    given = own_nats.credential()
    config = {"operation": "publish", "subject": "a", "url": f"nats://127.0.0.1:1,{given['url']}"}
    assert (await opened("nats").run(call(config, auth={**given, "url": "nats://127.0.0.1:1"}))).status == "ok"


async def test_a_connection_that_is_lost_ends_its_calls_at_once(opened, tmp_path) -> None:
    tool = opened("nats")
    with running_nats(tmp_path) as server:
        given = server.credential()
        user = {name: given[name] for name in ("user", "password")}
        listener = await nats.connect(given["url"], **user, allow_reconnect=False)
        heard = await listener.subscribe("open.silence")
        await listener.flush()
        asking = asyncio.create_task(tool.run(call({"operation": "request", "subject": "open.silence"}, auth=given)))
        await heard.next_msg(timeout=5)
        server.stop()
        error = (await asyncio.wait_for(asking, 5)).error
        assert (error["kind"], error["retryable"]) == ("connect", True)
        await listener.close()


async def test_connections_are_shared_bounded_and_made_anew(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(nats_links, "MAX_LINKS", 2)
    tool = NatsTool(ToolOptions())
    publish = {"operation": "publish", "subject": "open.a"}
    with running_nats(tmp_path) as server:
        calls = [call(publish, auth=server.credential()) for _ in range(5)]
        assert {o.status for o in await asyncio.gather(*map(tool.run, calls))} == {"ok"}
        assert await asyncio.to_thread(server.connections) == 1
        for user in ("full", "narrow"):
            for url in (server.url, f"{server.url}/"):
                assert (await tool.run(call(publish, auth={**server.credential(user), "url": url}))).status == "ok"
        await until(lambda: asyncio.to_thread(server.connections), "the first makes room", so=lambda count: count == 2)
        server.stop()
        assert (await tool.run(calls[0])).error["kind"] == "connect"
        server.start()
        assert (await tool.run(calls[0])).status == "ok"
        await tool.close()
        await until(lambda: asyncio.to_thread(server.connections), "all are closed", so=lambda count: count == 0)
