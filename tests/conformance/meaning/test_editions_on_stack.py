"""A stack that was upgraded while executions were under way (ADR 32)."""

import time

import pytest

from shared.dsl.compile import compile_playbook
from shared.dsl.model.edition import EDITION
from shared.engine.routing import decide as routing
from shared.events.record import Record, encode, subject_of
from shared.events.request import Request
from shared.events.stamp import seconds, stamp
from shared.runtime.service.main import connect
from shared.tools import registry
from tests.conformance.stand.lab import Lab, Ran, playbook
from tests.support.paths import ROOT

pytestmark = pytest.mark.asyncio(loop_scope="module")
BOOK = ROOT / "tests/unit/answers/verify/recorded/first-edition.yaml"


async def begun_before(lab: Lab, execution_id: str) -> Ran:
    """Its first record is one of a router that knew the first edition alone; the services of today find it."""
    entry = await lab.register(BOOK)
    plan = compile_playbook(BOOK.read_bytes(), kinds=registry.specs(), edition=1).plan
    assert plan is not None
    assert plan.digest == entry.digest
    ts = stamp(time.time())
    events = routing.start(execution_id, Request(entry.path), execution_id, plan, seconds(ts))
    record = Record(execution_id, "router", 1, ts, tuple(events))
    router = await connect("former-router", lab.stack.settings_for("router"))
    try:
        await router.append(subject_of(record, lab.stack.options.partitions), encode(record), expected=0)
    finally:
        await router.close()
    return await lab.finish(execution_id)


async def test_an_execution_that_began_in_the_first_edition_ends_by_its_rules(lab: Lab) -> None:
    """And `verify`, which the lab asks about everything that ran, finds nothing wrong."""
    ran = await begun_before(lab, "began-before")
    assert list(ran.summary.steps) == ["start", "asked", "each", "last"]
    assert (ran.status, ran.error["kind"]) == ("failed", "template")
    assert [done["failed"] for done in ran.of("loop.done")] == [2]
    ran = await lab.run(BOOK)
    assert (ran.status, list(ran.summary.steps)) == ("failed", ["start"])


async def test_an_execution_says_by_which_edition_it_goes(lab: Lab) -> None:
    entry = await lab.register(playbook("- step: start\n  tool: {kind: noop}"))
    ran = await lab.execute(entry.path)
    (evaluated,) = ran.of("playbook.request.evaluated")
    assert evaluated["digest"] == f"{entry.digest}@{EDITION}"
