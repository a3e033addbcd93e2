"""What is checked before the first step: sub-playbooks that are named, pools, and that each keychain entry is there."""

from typing import Any

import msgspec
import pytest

from services.cli.executions import requests
from shared.bus import topology
from shared.bus.jetstream import connect
from shared.bus.kv import stream_of
from shared.dsl.documents.pools import Pool
from shared.errors import NoetlError
from shared.events import subjects
from shared.events.request import Control, Request
from shared.events.subjects import inbox_prefix
from shared.runtime.service.clock import SystemClock
from shared.runtime.stores import pools
from tests.conformance.stand.lab import Lab, playbook

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHILD = playbook("- {step: start, tool: {kind: noop, args: {n: 1}}}").replace("tests/conformance", "ready/child")
FIRST = "- step: start\n  tool: {kind: noop}\n  next: {arcs: [{step: then}]}\n"


def calls(path: str, more: str = "") -> str:
    return playbook(FIRST + f"- step: then\n  tool: {{kind: playbook, path: {path!r}{more}}}\n", workload="{sub: x}")


def keys(*entries: str) -> str:
    return playbook(FIRST + "- {step: then, tool: {kind: noop}}\n", root=f"keychain: [{', '.join(entries)}]\n")


def pooled(where: str) -> str:
    return playbook(FIRST + f"- {{step: then, spec: {{{where}}}, tool: {{kind: noop}}}}\n")


@pytest.mark.parametrize(("book", "kind", "says"), [
    pytest.param(calls("ready/nosuch"), "playbook",
                 "step then calls a playbook that is not there: no playbook 'ready/nosuch' is registered",
                 id="playbook"),
    pytest.param(calls("ready/child", ", version: '9'"), "playbook", "no playbook 'ready/child' version '9'",
                 id="version"),
    pytest.param(calls("ready/child", ", return_step: strt"), "playbook",
                 "ready/child has no step 'strt', which return_step names", id="return_step"),
    pytest.param(pooled("pool: nosuch"), "pool", "step then cannot run: there is no pool nosuch (pools: default",
                 id="pool"),
    pytest.param(keys("{name: stored, kind: bearer}", "{name: missing, kind: bearer}"), "auth",
                 "keychain.missing: no credential 'missing' in the keychain (noetlctl credential missing=JSON)",
                 id="key"),
    pytest.param(keys("{name: a, kind: bearer, credential: no such}"), "auth", "keychain.a: no credential 'no such'",
                 id="impossible name"),
])
async def test_what_is_missing_ends_an_execution_before_its_first_step(
    lab: Lab, book: str, kind: str, says: str
) -> None:
    """FX §4.1: dependency references are validated; V10 §2.1: credentials resolve before the workflow."""
    await lab.register(CHILD)
    await lab.credential("stored", {"token": "a-token-1"})
    ran = await lab.refused(book)
    assert (ran.status, ran.error["kind"]) == ("failed", kind)
    assert says in ran.error["message"]
    assert [event["event_type"] for event in ran.events] == [
        "playbook.execution.requested", "playbook.request.evaluated", "playbook.processed"]


@pytest.mark.parametrize("book", [
    calls("ready/child"), calls("ready/child", ", return_step: start"),
    calls("ready/child", ", version: '{{ workload.sub }}1.0'").replace("sub: x", "sub: ''"),
    keys("{name: stored, kind: bearer}", "{name: other, kind: bearer, credential: stored}"), pooled("pool: default"),
])
async def test_what_is_there_runs(lab: Lab, book: str) -> None:
    await lab.register(CHILD)
    await lab.credential("stored", {"token": "a-token-1"})
    ran = await lab.run(book)
    assert ran.error.get("kind") != "auth"
    assert "then" in ran.summary.steps


async def test_a_name_that_a_template_makes_is_looked_for_when_it_is_used(lab: Lab) -> None:
    ran = await lab.run(calls("{{ workload.sub }}"))
    assert "start" in ran.summary.steps
    assert (ran.status, "'x'" in ran.error["message"]) == ("failed", True)


async def test_a_return_step_that_a_template_makes_is_looked_for_by_the_child(lab: Lab) -> None:
    await lab.register(CHILD)
    ran = await lab.run(calls("ready/child", ", return_step: 'st{{ workload.sub }}rt'"))
    assert (ran.status, ran.error["kind"]) == ("failed", "playbook")
    assert "return_step: ready/child has no step 'stxrt'" in ran.error["message"]


async def test_a_pool_with_a_document_is_there(lab: Lab) -> None:
    document = "apiVersion: noetl.io/v2\nkind: Pool\nmetadata: {name: later}\nspec: {backend: external}\n"
    await pools.apply(lab.bus, Pool("later", "external"), document, "ada", SystemClock().now())
    entry, request = await lab.register(pooled("pool: later")), Request("tests/conformance", execution_id="pooled-1")
    partitions = lab.stack.options.partitions
    answer = await requests.start(lab.bus, request, f"{inbox_prefix('admin')}.pooled", partitions)
    assert (entry.path, answer.status) == ("tests/conformance", "started")
    await lab.bus.append(subjects.CANCEL, msgspec.json.encode(Control("pooled-1")))
    assert (await lab.finish("pooled-1")).status == "cancelled"


async def test_a_child_that_lacks_something_fails_its_parents_task(lab: Lab) -> None:
    lacking = keys("{name: missing, kind: bearer}").replace("tests/conformance", "ready/lacking")
    await lab.register(lacking)
    ran = await lab.run(calls("ready/lacking"))
    assert (ran.status, "keychain.missing" in ran.error["message"]) == ("failed", True)
    assert "start" in ran.summary.steps


async def test_a_router_sees_names_of_credentials_and_no_value(lab: Lab) -> None:
    """By what it is allowed on the broker."""
    await lab.credential("seen", {"token": "never-for-routers"})
    settings = lab.stack.settings_for("router")
    bus = await connect(settings.nats_url, user=settings.nats_user, password=settings.nats_password)
    try:
        assert await bus.kv_is_named(topology.KEYCHAIN, "seen")
        assert not await bus.kv_is_named(topology.KEYCHAIN, "unseen")
        stream = stream_of(topology.KEYCHAIN)
        reads: list[Any] = [bus.kv_get(topology.KEYCHAIN, "seen"), bus.read(stream, [">"]), bus.find(stream, ">")]
        for reading in reads:
            with pytest.raises(NoetlError):
                await reading
    finally:
        await bus.close()
