"""A client that may ask and hear ends, and nothing else: from an account of its own, with a library that nobody here
wrote."""

import json
from collections.abc import AsyncIterator
from typing import Any

import nats
import pytest
import pytest_asyncio
from nats.aio.client import Client

from shared.bus.topology import events_stream
from tests.support.running import Running, impatient, running
from tests.support.waiting import until

GREET = """
  - step: start
    tool: {kind: python, args: {name: "{{ workload.name }}"}, code: "result = f'hello {name}'"}
"""
WITHIN_S = 20.0
__all__ = ["impatient"]
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    async with running(tmp_path_factory.mktemp("client")) as here:
        await here.register("greet", GREET)
        yield here


class Errors(list[str]):
    async def add(self, error: Exception) -> None:
        self.append(str(error))


@pytest_asyncio.fixture(loop_scope="module")
async def errors() -> Errors:
    return Errors()


@pytest_asyncio.fixture(loop_scope="module")
async def client(stack: Running, errors: Errors) -> AsyncIterator[Client]:
    url = stack.stack.server.url_for("client")
    connection = await nats.connect(url, inbox_prefix=b"_INBOX_client", error_cb=errors.add)
    yield connection
    await connection.close()


async def ask(client: Client, verb: str, body: Any, headers: dict[str, str] | None = None) -> dict[str, Any]:
    answer = await client.request(f"noetl.api.{verb}", json.dumps(body).encode(), timeout=WITHIN_S, headers=headers)
    found: dict[str, Any] = json.loads(answer.data)
    return found


@pytest.mark.usefixtures("impatient")
async def test_it_asks_and_hears_the_end(client: Client) -> None:
    ends = await client.subscribe("noetl.ends.>")
    request, headers = {"path": "greet", "payload": {"name": "you"}}, {"Nats-Msg-Id": "order-1"}
    first = await ask(client, "execute", request, headers)
    assert (first["status"], first["error"]) == ("started", None)
    end = json.loads((await ends.next_msg(timeout=WITHIN_S)).data)
    assert (end["execution_id"], end["status"], end["result"]) == (first["execution_id"], "completed", "hello you")
    again = await ask(client, "execute", request, headers)
    assert (again["status"], again["execution_id"]) == ("duplicate", first["execution_id"])
    assert (await ask(client, "cancel", {"execution_id": "nobody"}))["status"] == "failed"
    assert "execute" in (await ask(client, "exceute", {}))["error"]["message"]


async def test_what_it_says_elsewhere_is_refused(client: Client, errors: Errors) -> None:
    subjects = ("noetl.requests.execute", "$JS.API.STREAM.NAMES", "$JS.API.DIRECT.GET.KV_noetl_keychain", "noetl.time")
    for subject in subjects:
        await client.publish(subject, b"{}")
    await client.subscribe("noetl.events.>")
    await until(lambda: len(errors), "each is refused", WITHIN_S, so=lambda count: count >= len(subjects) + 1)
    assert all("permissions violation" in error.lower() for error in errors)


@pytest.mark.usefixtures("impatient")
async def test_a_reply_subject_gets_it_nowhere(client: Client, stack: Running) -> None:
    """The answer to what it asks comes to its own account, whatever it names."""
    forged = "noetl.events.0.x.router"
    before = await stack.bus.last_seq(events_stream(0))
    await client.publish("noetl.api.cancel", b'{"execution_id": "nobody"}', reply=forged)
    await ask(client, "cancel", {"execution_id": "nobody"})  # answered after the one before it
    assert await stack.bus.last_seq(events_stream(0)) == before
    assert await stack.bus.get(events_stream(0), forged) is None
