"""Executions that nothing will move, on a real stack: `verify` finds them, and leaves alone what waits for a reason."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from services.cli.commands import verify
from services.cli.console import exits
from services.cli.verify import checker, unfinished
from services.cli.verify.checker import Checker, everything
from services.cli.verify.unfinished import Watch
from shared.bus import topology
from shared.bus.membership import Notice
from shared.bus.ports import Delivery
from shared.events import model as ev
from shared.events import subjects
from shared.events.command import decode
from shared.events.record import Record, encode
from shared.events.stamp import stamp
from shared.runtime.control.partitions import Cursor
from shared.runtime.service.clock import SystemClock
from tests.conformance.stand.stage import Stage, stage

__all__ = ["stage"]

pytestmark = pytest.mark.asyncio(loop_scope="module")
SIGNAL = "tool: {kind: signal, signal: go}"
NOBODYS = "- step: start\n  spec: {pool: empty}\n  tool: {kind: noop}\n"
WITHIN_S = 30.0
BUSY = 40
UNDER_WAY = ("running", "pending")


@pytest.fixture(autouse=True)
def young(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test has just begun is looked at too."""
    monkeypatch.setattr(checker, "STILL_S", -1.0)


def patient(stage: Stage) -> Watch:
    """Looks again at once, as if the time between had passed."""
    passed = [0.0]

    async def sleep(seconds: float) -> None:
        passed[0] += seconds
        await asyncio.sleep(0.02)

    return Watch(lambda: unfinished.look(stage.bus, stage.partitions), lambda: passed[0], sleep)


async def delivered(stage: Stage, *executions: str) -> dict[str, Delivery]:
    """The commands of these, in the hands of someone who says nothing of it."""
    consumer = await stage.bus.consume(topology.COMMANDS, "empty", len(executions))
    found: dict[str, Delivery] = {}
    try:
        async with asyncio.timeout(WITHIN_S):
            while found.keys() != set(executions):
                for delivery in await consumer.batch(len(executions) - len(found)):
                    found[decode(delivery.data).execution_id] = delivery
    finally:
        await consumer.close()
    return found


async def without_the_purged(stage: Stage, held: int) -> None:
    """The broker's consumer lets go of a purged message after the purge has been answered."""
    for _ in range(round(WITHIN_S / 0.02)):
        state = await stage.bus.consumer(topology.COMMANDS, "empty")
        if state is not None and state.held == held:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"the consumer holds what was purged: {state}")


async def test_a_command_that_its_consumer_takes_for_done_is_found(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three are held, one of them is purged, another is acknowledged: the third comes to nobody any more."""
    held, purged, ended = [await stage.begin(NOBODYS) for _ in range(3)]
    for execution in (held, purged, ended):
        await stage.stalled(execution, "pool.no_workers", lambda reason, _: reason.since)
    hands = await delivered(stage, held, purged, ended)
    assert await patient(stage).stuck([held]) == {}, "held by someone, it comes again"
    order = sorted(hands, key=lambda execution: hands[execution].seq)
    lost, between, last = order
    prefix = f"{subjects.COMMANDS}.empty.{between}.>"
    await stage.bus.requests.api(f"STREAM.PURGE.{topology.COMMANDS}", {"filter": prefix})
    await without_the_purged(stage, 2)  # an acknowledgement before that leaves the first held
    await hands[last].ack()
    reason, _ = await stage.stalled(lost, "command.stranded")
    assert (reason.mover, reason.values["message"]) == ("itself", hands[lost].seq)
    assert reason.values["floor"] >= hands[lost].seq
    verifier = Checker(stage.bus, stage.partitions, None, 0.0, patient(stage))
    assert await verify.verify_one(verifier, lost, "json", 1) == exits.ERROR
    told = json.loads(capsys.readouterr().out)
    assert (told["verdict"], told["violations"][0]["rule"]) == ("violated", "stuck")
    assert "command.stranded" in told["violations"][0]["message"]
    assert told["violations"][0]["seq"] == told["last"]
    alone = Checker(stage.bus, stage.partitions, None, 0.0)
    assert await verify.verify_one(alone, lost, "json", 1) == exits.OK, "the log alone does not know"
    capsys.readouterr()


async def test_a_log_that_nobody_can_read_is_found_and_so_is_who_waits_for_it(stage: Stage) -> None:
    await stage.begin(f"- step: start\n  {SIGNAL}\n", path="stuck/child")
    parent = await stage.begin("- step: start\n  tool: {kind: playbook, path: stuck/child}\n")
    reason, _ = await stage.stalled(parent, "wait.child", lambda reason, _: reason.because)
    child = reason.values["child"]
    await stage.stalled(child, "wait.signal")
    assert await patient(stage).stuck([parent, child]) == {}
    await stage.append(child, "control", b"{}")
    await stage.stalled(child, "log.corrupt")
    found = await patient(stage).stuck([parent, child])
    assert {name: {each.rule for each in violations} for name, violations in found.items()} == {
        parent: {"stuck"}, child: {"stuck"}}
    assert any(f"execution {child}, which it waits for" in each.message for each in found[parent])


async def test_a_report_that_its_router_has_passed_over_is_found(stage: Stage) -> None:
    """The cursor is past the record, a router is there, and the decision is not in the log."""
    execution = await stage.begin(f"- step: start\n  {SIGNAL}\n")
    await stage.stalled(execution, "wait.signal")
    partition = subjects.partition_of(execution, stage.partitions)
    cursor = f"router.{partition}"
    async with stage.without("router"), _there(stage, "router"):
        before = await stage.bus.kv_get(topology.CURSORS, cursor)
        assert before is not None
        asked = ev.CancelRequested(by="test")
        record = Record(execution, "control", 1, stamp(SystemClock().now() - 60), (asked,), source="c1")
        await stage.append(execution, "control", encode(record))
        await stage.stalled(execution, "router.behind")
        assert await patient(stage).stuck([execution]) == {}, "it gets there"
        await stage.bus.kv_put(topology.CURSORS, cursor, msgspec.json.encode(Cursor(10**9)))
        reason, _ = await stage.stalled(execution, "router.silent")
        assert reason.mover == "nothing"
        (violation,) = (await patient(stage).stuck([execution]))[execution]
        assert "router.silent" in violation.message
        await stage.bus.kv_put(topology.CURSORS, cursor, before.value)
    await stage.stalled(execution, "over")


@asynccontextmanager
async def _there(stage: Stage, service: str) -> AsyncIterator[None]:
    """Someone says that the service is there."""

    async def say() -> None:
        while True:
            await stage.bus.publish(subjects.member(service), msgspec.json.encode(Notice("someone", "here")))
            await asyncio.sleep(0.2)

    task = asyncio.create_task(say())
    try:
        yield
    finally:
        task.cancel()


async def test_what_waits_for_someone_or_for_a_time_is_not_stuck(stage: Stage) -> None:
    waits = {
        "wait.signal": await stage.begin(f"- step: start\n  {SIGNAL}\n"),
        "wait.time": await stage.begin("- step: start\n  tool: {kind: wait, for: 3600}\n"),
        "pool.no_workers": await stage.begin(NOBODYS),
        "pool.unknown": await stage.in_lost_pool(),
        "paused": await stage.begin(f"- step: start\n  {SIGNAL}\n"),
    }
    await stage.tell(subjects.PAUSE, waits["paused"])
    for cause, execution in waits.items():
        await stage.stalled(execution, cause)
    assert await patient(stage).stuck(waits.values()) == {}


async def test_a_stack_whose_services_are_down_has_nothing_that_is_stuck(stage: Stage) -> None:
    execution = await stage.begin(f"- step: start\n  {SIGNAL}\n")
    await stage.stalled(execution, "wait.signal")
    async with stage.without("router"), stage.without("scheduler"):
        await stage.tell(subjects.SIGNAL, execution, name="go")
        assert await patient(stage).stuck([execution]) == {}
    await stage.stalled(execution, "over")


async def test_a_busy_stack_is_not_said_to_be_stuck(stage: Stage) -> None:
    """While executions go on, everything that is not over is looked at, again and again."""
    text = "- step: start\n  next: [{step: more}]\n  tool: {kind: noop}\n- step: more\n" \
        "  loop: {in: '{{ range(8) | list }}', iterator: n, spec: {mode: parallel}}\n  tool: {kind: noop}\n"
    await stage.begin(text, path="stuck/busy")
    asked = left = [await stage.ask("stuck/busy") for _ in range(BUSY)]
    watch = patient(stage)
    async with asyncio.timeout(WITHIN_S * 2):
        while left:
            assert await watch.stuck(left) == {}
            answers = {execution: await stage.why(execution) for execution in left}
            left = [name for name, found in answers.items() if found is None or found.status in UNDER_WAY]
    summary = await everything(Checker(stage.bus, stage.partitions, None, 0.0, None))
    assert {summary.known[name].word for name in asked} == {"verified"}
    assert not summary.still.keys() & set(asked)
