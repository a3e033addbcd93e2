"""What whoever waits for an answer is told: also that a request would start or change nothing."""

from typing import Any

import msgspec
import pytest

from services.router.requests import Requests
from services.router.service import Router
from shared.bus import dead_letters, topology
from shared.bus.memory.bus import MemoryBus
from shared.dsl.compile import compile_playbook
from shared.events import model as ev
from shared.events import subjects
from shared.events.headers import REPLY_TO, REQUEST_ID
from shared.events.record import Record, decode, encode
from shared.events.request import Control, Request
from shared.runtime.service.clock import SystemClock
from shared.runtime.service.settings import Settings
from shared.runtime.stores import catalog
from shared.runtime.stores.execution_status import standing
from shared.tools import registry
from tests.support.memory_bus import memory_bus
from tests.support.playbooks import head
from tests.unit.services.router.test_requests import Delivered, notes, taken

INBOX = "_INBOX.me.1"
ASKS = """workflow:
  - step: start
    tool:
      - {kind: signal, signal: go}
      - {kind: signal, signal: sign, schema: {type: object, required: [by]}}
"""
ANY = "workflow:\n  - {step: start, tool: {kind: signal, signal: '{{ workload.name }}'}}\n"


class Desk:
    """A router, and somebody who asks it."""

    def __init__(self) -> None:
        self.bus: MemoryBus = memory_bus()
        self.requests: Requests = Router(self.bus, Settings(instance="one", partitions=1), SystemClock()).requests
        self._seq = 0

    async def register(self, path: str, workflow: str) -> None:
        source = (head(path, path) + workflow).encode()
        plan = compile_playbook(source, kinds=registry.specs()).plan
        assert plan is not None
        await catalog.register(self.bus, source, plan)

    async def told(self, asked: Request | Control, verb: str = "execute", key: str = "", seq: int = 0) -> Any:
        """The answer; `seq`: that request once more."""
        inbox = await self.bus.subscribe(INBOX)
        try:
            await self.publish(asked, verb, key, seq, {REPLY_TO: INBOX})
            return msgspec.json.decode(await inbox.next())
        finally:
            await inbox.close()

    async def publish(
        self, asked: Request | Control, verb: str, key: str = "", seq: int = 0, headers: dict[str, str] | None = None
    ) -> None:
        self._seq += 1
        given = {**(headers or {}), **({REQUEST_ID: key} if key else {})}
        sent = Delivered(
            msgspec.json.encode(asked), 1, f"{subjects.REQUESTS}.{verb}", seq or self._seq, headers=given)
        assert await taken(self.requests, sent) == [["ack"]]

    async def end(self, execution_id: str) -> None:
        """As the router that owns it would write it."""
        subject = subjects.event(0, execution_id, subjects.ROUTER)
        (known,) = await self.bus.read(topology.events_stream(0), [subject])
        first = decode(known, 1)
        ended = Record(
            execution_id, "router", first.n + len(first.events), first.ts, (ev.PlaybookProcessed("completed"),))
        await self.bus.append(subject, encode(ended), expected=known.seq)

    async def letters(self) -> list[str]:
        return [each.note.reason for each in await dead_letters.latest(self.bus, 10) if each.note is not None]


@pytest.mark.parametrize("other", [
    Request("other", "1", {"n": 1}), Request("gone", "2", {"n": 1}), Request("gone", "1", {"n": 2}),
    Request("gone", "1", {"n": True}), Request("gone", "1"),
], ids=["path", "version", "payload", "true is not 1", "no payload"])
@pytest.mark.parametrize("key", ["", "order-1"], ids=["by its id", "by its key"])
async def test_another_request_under_a_used_id_is_not_the_same_one(other: Request, key: str) -> None:
    desk = Desk()
    first = Request("gone", "1", {"n": 1}, execution_id="" if key else "mine")
    began = await desk.told(first, key=key)
    again = await desk.told(first, key=key)
    assert (again["status"], again["error"], again["execution_id"]) == ("duplicate", None, began["execution_id"])
    refused = await desk.told(msgspec.structs.replace(other, execution_id=first.execution_id), key=key)
    assert (refused["status"], refused["error"]["kind"], refused["execution_id"]) == ("failed", "request", "")
    assert f"{began['execution_id']} began by another request" in refused["error"]["message"]
    assert await desk.letters() == []


async def begun(desk: Desk, workflow: str = ASKS) -> str:
    await desk.register("asks", workflow)
    answer = await desk.told(Request("asks", payload={"name": "late"}, execution_id="one"))
    assert answer["status"] == "started"
    return "one"


async def over(desk: Desk) -> str:
    assert (await desk.told(Request("gone", execution_id="ended")))["status"] == "failed"
    assert await standing(desk.bus, "ended", 1) == "over"
    return "ended"


@pytest.mark.parametrize("verb", ["cancel", "pause", "resume", "signal"])
async def test_nothing_can_be_asked_of_an_execution_that_is_over(verb: str) -> None:
    desk = Desk()
    name = await over(desk)
    refused = await desk.told(Control(name, name="go"), verb)
    assert (refused["status"], refused["execution_id"]) == ("failed", name)
    assert refused["error"]["message"] == f"execution {name} is over: there is nothing to {verb}"
    assert await notes(desk.bus, name) == []


@pytest.mark.parametrize("verb", ["cancel", "signal"])
async def test_what_was_accepted_is_accepted_again_when_the_execution_is_over(verb: str) -> None:
    """By its own id or its place in the queue: the answer may have been lost, and the request comes again."""
    desk = Desk()
    name = await begun(desk)
    key = "again" if verb == "cancel" else ""
    assert (await desk.told(Control(name, name="go"), verb, key, seq=77))["status"] == "accepted"
    await desk.end(name)
    assert (await desk.told(Control(name, name="go"), verb, key, seq=77))["status"] == "accepted"
    assert (await desk.told(Control(name, name="go"), verb, "other", seq=78))["status"] == "failed"


async def test_who_asks_for_no_answer_finds_a_letter_about_a_signal_alone() -> None:
    """What was to be stopped has stopped: schedulers ask so too. A signal's payload would be lost."""
    desk = Desk()
    name = await over(desk)
    await desk.publish(Control(name), "cancel")
    assert await desk.letters() == []
    await desk.publish(Control(name, name="go"), "signal")
    assert await desk.letters() == [f"execution {name} is over: there is nothing to signal"]


@pytest.mark.parametrize(("name", "payload", "said"), [
    ("nope", None, "nothing in asks waits for a signal 'nope' (it waits for go, sign)"),
    ("sing", None, "nothing in asks waits for a signal 'sing': did you mean sign?"),
    ("sign", {}, "the payload does not fit what signal 'sign' must have: "),
])
async def test_a_signal_that_no_task_can_take_is_refused(name: str, payload: Any, said: str) -> None:
    desk = Desk()
    execution = await begun(desk)
    refused = await desk.told(Control(execution, name=name, payload=payload), "signal")
    assert (refused["status"], refused["error"]["kind"]) == ("failed", "request")
    assert refused["error"]["message"].startswith(said)
    assert await notes(desk.bus, execution) == []


@pytest.mark.parametrize(("workflow", "name"), [(ASKS, "go"), (ASKS, "sign"), (ANY, "late"), (ANY, "whatever")])
async def test_a_signal_that_a_task_waits_for_or_may_wait_for_is_accepted(workflow: str, name: str) -> None:
    desk = Desk()
    execution = await begun(desk, workflow)
    answer = await desk.told(Control(execution, name=name, payload={"by": "me"}), "signal")
    assert (answer["status"], answer["error"]) == ("accepted", None)
    assert len(await notes(desk.bus, execution)) == 1
