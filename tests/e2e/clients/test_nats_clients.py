"""A stack as any NATS client sees it, with a client that nobody here wrote: what is asked is answered, a refusal is
found, an end is heard."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nats
import pytest
import pytest_asyncio
from nats.aio.client import Client
from nats.errors import NoRespondersError

from shared.bus import dead_letters, topology
from shared.bus.jetstream import JetStreamBus
from shared.events.request import derive_id
from tests.support.running import Running, impatient, running
from tests.support.waiting import until

GREET = """
  - step: start
    tool: {kind: python, args: {name: "{{ workload.name }}"}, code: "result = f'hello {name}'"}
"""
BREAK = """
  - step: start
    tool: {kind: python, code: "raise ValueError('no such order')"}
"""
LARGE = """
  - step: start
    tool: {kind: python, code: "result = 'x' * 300000"}
"""
ASKS = """
  - step: start
    tool: {kind: signal, signal: go}
"""
WITHIN_S = 20.0
__all__ = ["impatient"]
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    async with running(tmp_path_factory.mktemp("clients")) as here:
        for name, workflow in (("greet", GREET), ("break", BREAK), ("large", LARGE), ("asks", ASKS)):
            await here.register(name, workflow)
        yield here


@pytest_asyncio.fixture(loop_scope="module")
async def client(stack: Running) -> AsyncIterator[Client]:
    connection = await nats.connect(stack.stack.server.url_for("admin"))
    yield connection
    await connection.close()


async def ask(client: Client, verb: str, body: Any, headers: dict[str, str] | None = None) -> dict[str, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = await client.request(f"noetl.api.{verb}", data, timeout=WITHIN_S, headers=headers)
    found: dict[str, Any] = json.loads(answer.data)
    return found


async def heard(listening: Any) -> dict[str, Any]:
    message = await listening.next_msg(timeout=WITHIN_S)
    return {"subject": message.subject, **json.loads(message.data)}


async def letters(bus: JetStreamBus) -> list[str]:
    return [each.note.reason for each in await dead_letters.latest(bus, 50) if each.note is not None]


async def test_a_request_is_answered_by_the_engine(stack: Running, client: Client) -> None:
    answer = await ask(client, "execute", {"path": "greet", "payload": {"name": "you"}})
    assert (answer["status"], answer["error"]) == ("started", None)
    assert (await stack.ended(answer["execution_id"])).status == "completed"


@pytest.mark.usefixtures("impatient")
async def test_a_refusal_is_an_answer(client: Client) -> None:
    unknown_field = await ask(client, "execute", {"path": "greet", "paylaod": {}})
    assert (unknown_field["status"], unknown_field["error"]["kind"]) == ("failed", "request")
    assert "did you mean `payload`?" in unknown_field["error"]["message"]
    unknown_verb = await ask(client, "exceute", {"path": "greet"})
    assert "execute" in unknown_verb["error"]["message"]
    assert "no execution nobody" in (await ask(client, "cancel", {"execution_id": "nobody"}))["error"]["message"]


async def test_the_same_request_again_is_answered_again(client: Client) -> None:
    """The broker drops a message whose id it has just seen; a caller that asks again waits for an answer."""
    headers = {"Nats-Msg-Id": "order-4711"}
    first = await ask(client, "execute", {"path": "greet", "payload": {"name": "a"}}, headers)
    second = await ask(client, "execute", {"path": "greet", "payload": {"name": "a"}}, headers)
    assert (first["status"], second["status"]) == ("started", "duplicate")
    assert first["execution_id"] == second["execution_id"] == derive_id("id", "order-4711")
    other = await ask(client, "execute", {"path": "greet", "payload": {"name": "b"}}, headers)
    assert (other["status"], "began by another request" in other["error"]["message"]) == ("failed", True)


async def test_what_would_change_nothing_is_refused(stack: Running, client: Client) -> None:
    waiting = (await ask(client, "execute", {"path": "asks"}))["execution_id"]
    unwanted = await ask(client, "signal", {"execution_id": waiting, "name": "nope"})
    assert (unwanted["status"], "it waits for go" in unwanted["error"]["message"]) == ("failed", True)
    assert (await ask(client, "signal", {"execution_id": waiting, "name": "go"}))["status"] == "accepted"
    await stack.ended(waiting)
    for verb in ("signal", "cancel"):
        late = await ask(client, verb, {"execution_id": waiting, "name": "go"})
        assert (late["status"], "is over" in late["error"]["message"]) == ("failed", True)


async def test_a_refused_publication_with_an_id_is_an_execution_that_failed(stack: Running, client: Client) -> None:
    body = {"path": "greet", "execution_id": "order-1", "paylaod": {}}
    await client.publish("noetl.requests.execute", json.dumps(body).encode())
    named = await stack.ended("order-1")
    assert (named.status, named.path) == ("failed", "greet")
    assert named.error is not None
    assert "paylaod" in named.error["message"]
    await client.publish("noetl.requests.execute", b"{", headers={"Nats-Msg-Id": "order-2"})
    unnamed = await stack.ended(derive_id("id", "order-2"))
    assert unnamed.error is not None
    assert "must be JSON" in unnamed.error["message"]


async def test_a_refused_publication_without_an_id_is_a_dead_letter(stack: Running, client: Client) -> None:
    await client.publish("noetl.requests.execute", b'{"pth": "greet"}')
    await until(
        lambda: letters(stack.bus), "a letter", WITHIN_S, so=lambda found: any("`path`" in each for each in found))


async def test_a_publication_under_an_id_that_is_taken_is_a_dead_letter(stack: Running, client: Client) -> None:
    for name in ("one", "one", "other"):
        body = {"path": "greet", "execution_id": "order-3", "payload": {"name": name}}
        await client.publish("noetl.requests.execute", json.dumps(body).encode())
    found = await until(
        lambda: letters(stack.bus), "a letter", WITHIN_S, so=lambda all_: any("order-3" in each for each in all_))
    assert len([each for each in found if "order-3" in each]) == 1, "the same request twice is no mistake"


async def test_a_cancel_of_nobody_is_a_dead_letter(stack: Running, client: Client) -> None:
    await client.publish("noetl.requests.cancel", b'{"execution_id": "order-none"}')
    await until(
        lambda: letters(stack.bus), "a letter", WITHIN_S,
        so=lambda found: any("no execution order-none" in each for each in found))


async def test_ends_are_heard_by_playbook_with_result_error_or_reference(client: Client) -> None:
    listening = {name: await client.subscribe(f"noetl.ends.*.*.{name}") for name in ("greet", "break", "large")}
    await client.flush()
    ids = {name: (await ask(client, "execute", {"path": name, "payload": {"name": "you"} if name == "greet" else {},
                                                "labels": {"team": "a"}, "by": "me"}))["execution_id"]
           for name in listening}
    greeted, broken, large = [await heard(listening[name]) for name in ("greet", "break", "large")]
    assert greeted["subject"] == f"noetl.ends.completed.{ids['greet']}.greet"
    assert (greeted["status"], greeted["result"], greeted["error"]) == ("completed", "hello you", None)
    assert (greeted["labels"], greeted["by"], greeted["parent"]) == ({"team": "a"}, "me", "")
    assert greeted["started_at"] < greeted["ended_at"]
    assert (broken["subject"], broken["status"]) == (f"noetl.ends.failed.{ids['break']}.break", "failed")
    assert "no such order" in broken["error"]["message"]
    assert (large["result"], large["reference"]["key"].split("/")[0]) == (None, ids["large"])
    assert large["reference"]["size"] > 300_000


async def test_ends_that_nobody_heard_are_kept(stack: Running, client: Client) -> None:
    answer = await ask(client, "execute", {"path": "greet", "payload": {"name": "late"}})
    await stack.ended(answer["execution_id"])
    kept = await client.jetstream().subscribe(f"noetl.ends.*.{answer['execution_id']}.>", ordered_consumer=True)
    assert json.loads((await kept.next_msg(timeout=WITHIN_S)).data)["result"] == "hello late"


async def test_everything_is_told_again_when_the_cursor_is_lost_and_nobody_hears_it_twice(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        await here.register("greet", GREET)
        ended = [await here.start("greet") for _ in range(5)]
        for each in ended:
            await here.ended(each)
        await until(lambda: here.bus.last_seq(topology.ENDS), "all are told", WITHIN_S, so=lambda seq: seq == 5)
    async with running(tmp_path) as here:
        for partition in range(here.partitions):
            await here.bus.kv_delete(topology.CURSORS, f"ends.{partition}")
    async with running(tmp_path) as here:
        more = await here.start("greet")
        await here.ended(more)
        await until(lambda: here.bus.last_seq(topology.ENDS), "the last one is told", WITHIN_S, so=lambda seq: seq >= 6)
        await asyncio.sleep(1.0)
        assert await here.bus.last_seq(topology.ENDS) == 6


async def test_without_a_router_the_caller_is_told_at_once(tmp_path: Path) -> None:
    from shared.runtime.embedded.stack import Options, Stack

    async with Stack(Options(tmp_path, postgres=False, drain_s=5.0), []) as alone:
        await alone.ready()
        connection = await nats.connect(alone.server.url_for("admin"))
        with pytest.raises(NoRespondersError):
            await connection.request("noetl.api.execute", b"{}", timeout=WITHIN_S)
        await connection.close()
