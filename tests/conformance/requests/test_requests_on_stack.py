"""Requests as any client of NATS makes them: how they name a playbook, what is refused, and what is checked before the
first step."""

import asyncio
import json
import uuid
from typing import Any

import pytest

from shared.bus import topology
from shared.events import subjects
from shared.events.headers import REPLY_TO
from shared.events.subjects import inbox_prefix
from tests.conformance.stand.lab import LIMIT_S, Lab, playbook

pytestmark = pytest.mark.asyncio(loop_scope="module")
SAYS = playbook("- {step: start, tool: {kind: noop, args: {v: VERSION}}}")


def book(path: str, version: str = "1") -> str:
    return SAYS.replace("path: tests/conformance", f'path: {path}, version: "{version}"').replace("VERSION", version)


async def ask(lab: Lab, verb: str = "execute", **fields: Any) -> dict[str, Any]:
    """What a router answers."""
    inbox_name = f"{inbox_prefix('admin')}.{uuid.uuid4().hex}"
    inbox = await lab.bus.subscribe(inbox_name)
    try:
        await lab.bus.append(f"{subjects.REQUESTS}.{verb}", json.dumps(fields).encode(), headers={REPLY_TO: inbox_name})
        async with asyncio.timeout(LIMIT_S):
            found: dict[str, Any] = json.loads(await inbox.next())
            return found
    finally:
        await inbox.close()


async def executions(lab: Lab) -> int:
    """How many there are."""
    partitions = range(lab.stack.options.partitions)
    found = [await lab.bus.read(topology.events_stream(p), [f"{subjects.EVENTS}.{p}.*.router"]) for p in partitions]
    return len({message.subject for each in found for message in each})


async def test_a_request_names_a_playbook_by_its_id(lab: Lab) -> None:
    """FS §3.1, FX §4.1: `playbook_id`, the digest or the registered id."""
    first, second = [await lab.register(book("tests/ids", version)) for version in ("1", "2")]
    assert first.playbook_id == "tests/ids@1"
    for playbook_id, entry in ((first.digest, first), (second.digest, second), ("tests/ids@1", first)):
        answer = await ask(lab, playbook_id=playbook_id)
        assert answer["status"] == "started", answer
        ran = await lab.finish(answer["execution_id"])
        assert (ran.status, ran.result()) == ("completed", {"v": int(entry.version)})
        (requested,) = ran.of("playbook.execution.requested")
        assert (requested["path"], requested["version"]) == ("tests/ids", entry.version)
        assert ran.of("playbook.request.evaluated")[0]["digest"] == entry.digest


@pytest.mark.parametrize(("playbook_id", "says"), [
    ("0" * 64, "no playbook source with digest 000000000000…"), ("tests/ids@9", "no playbook 'tests/ids' version '9'"),
    ("tests/ids", "is no id of a playbook"),
])
async def test_an_unknown_id_fails_with_its_reason(lab: Lab, playbook_id: str, says: str) -> None:
    await lab.register(book("tests/ids"))
    answer = await ask(lab, playbook_id=playbook_id)
    assert (answer["status"], answer["error"]["kind"]) == ("failed", "request")
    assert says in answer["error"]["message"]


@pytest.mark.parametrize("verb", ["delete", "executes", "execute.now", "start"])
async def test_an_unknown_verb_is_refused_and_not_run(lab: Lab, verb: str) -> None:
    await lab.register(book("tests/verbs"))
    before = await executions(lab)
    answer = await ask(lab, verb, path="tests/verbs", execution_id="verbs-1")
    assert (answer["status"], answer["execution_id"]) == ("failed", "")
    assert answer["error"]["message"].endswith("noetl.requests has cancel, execute, pause, rerun, resume, signal")
    assert await executions(lab) == before


@pytest.mark.parametrize(("verb", "fields", "says"), [
    ("execute", {"path": "tests/fields", "paylod": {"n": 1}}, "no field `paylod`: did you mean `payload`?"),
    ("execute", {"path": "tests/fields", "workload": {}}, "no field `workload`: known are"),
    ("execute", {"path": "tests/fields", "playbook_id": "tests/fields@1.0"}, "not by both"),
    ("execute", {"payload": {}}, "needs `path`, the registered path of a playbook, or `playbook_id`"),
    ("cancel", {"execution_id": "x", "force": True}, "no field `force`: known are"),
])
async def test_an_unknown_field_is_refused_and_not_run(
    lab: Lab, verb: str, fields: dict[str, Any], says: str
) -> None:
    await lab.register(book("tests/fields"))
    before = await executions(lab)
    answer = await ask(lab, verb, **fields)
    assert (answer["status"], answer["execution_id"]) == ("failed", "")
    assert says in answer["error"]["message"]
    assert await executions(lab) == before


async def test_another_request_under_a_used_id_is_refused(lab: Lab) -> None:
    """Only the same request is a duplicate: whoever asks for something else does not believe that it runs."""
    await lab.register(book("tests/ids"))
    asked = {"path": "tests/ids", "execution_id": "own-1", "payload": {"who": "a"}}
    found = [await ask(lab, **asked), await ask(lab, **asked)]
    before = await executions(lab)
    others: list[dict[str, Any]] = [{"payload": {"who": "b"}}, {"payload": {}}, {"path": "tests/nosuch"}]
    found += [await ask(lab, **{**asked, **other}) for other in others]
    assert [(each["execution_id"], each["status"]) for each in found] == [
        ("own-1", "started"), ("own-1", "duplicate"), *[("", "failed")] * 3]
    assert all("own-1 began by another request" in each["error"]["message"] for each in found[2:])
    assert (await lab.finish("own-1")).status == "completed"
    assert await executions(lab) == before
