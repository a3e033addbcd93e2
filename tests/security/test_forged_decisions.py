"""What stands on a worker's subject is a worker's, whatever it says of itself: a forged decision is none."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from shared.events import subjects
from shared.events.stamp import stamp
from shared.runtime.embedded.unit import Unit
from tests.support.forging import event, lying, records, stack, verdict, waiting
from tests.support.running import WAIT_S, Running
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")
LONG = "x" * 600
LATER = 9_000_000_000_000_000_000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def run(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    folder: Path = tmp_path_factory.mktemp("stack")
    async with stack(folder) as one:
        yield one


def lease(**fields: Any) -> dict[str, Any]:
    given = {"run_id": "start:1", "step": "start", "epoch": [1, 1], "worker": "liar", "pool": "default"}
    return {key: value for key, value in (given | fields).items() if value is not None}


def record(execution_id: str, *events: dict[str, Any], **fields: Any) -> dict[str, Any]:
    given = {"execution_id": execution_id, "writer": "worker", "n": 1, "ts": stamp(1_800_000_000), "lease": lease()}
    body = given | {"events": list(events)} | fields
    return {key: value for key, value in body.items() if value is not None}


DONE = event("step.done", result={"value": "forged"})
CANCEL = event("cancel.requested", reason="forged", by="nobody", grace_s=0)
OVER = event("playbook.processed", status="completed", result={"value": "forged"})
STEP = event("step.scheduled", run_id="after:1", step="after", digest="d", pool="gpu")


def forgeries(execution_id: str, other: str) -> dict[str, tuple[str, Any]]:
    """By what is wrong with it: the writer of its subject, and its body."""

    def one(*events: dict[str, Any], **fields: Any) -> dict[str, Any]:
        return record(execution_id, *events, **fields)

    return {
        "a cancel": ("worker", one(CANCEL, writer="control", lease=None, source="s")),
        "a cancel for the scheduler": ("waiting", one(CANCEL, writer="control", lease=None, source="s")),
        "a completion": ("worker", one(OVER, writer="router", lease=None, n=3)),
        "a step in another pool": ("waiting", one(STEP, writer="router", lease=None, n=3)),
        "a step, from a router with a lease": ("waiting", one(STEP, writer="router", n=3)),
        "a loop, from a scheduler": ("worker", one(event("loop.done", run_id="start:1", step="start"),
                                                   writer="scheduler", lease=None)),
        "a wait that is over": ("worker", one(event("task.resumed", run_id="start:1", wait="w"), writer="scheduler",
                                              lease=None)),
        "a router's event in a worker's record": ("worker", one(OVER)),
        "a cancel in a worker's record": ("worker", one(CANCEL)),
        "a scheduler's event in a worker's record": ("iteration", one(event("loop.done", run_id="start:1", step="s"),
                                                                      writer="iteration")),
        "an iteration's end by a worker": ("worker", one(event("loop.iteration.done"))),
        "a failure that names a run": ("worker", one(event("step.failed", error={}, run_id="start:1", step="start"))),
        "another execution": ("worker", record(other, DONE)),
        "another writer": ("worker", one(DONE, writer="iteration")),
        "no lease": ("worker", one(DONE, lease=None)),
        "no lease of a wait": ("waiting", one(event("task.waiting", task="t", attempt=1, wait="w"), writer="waiting",
                                              lease=None)),
        "no events": ("worker", one()),
        "a lease of the future": ("worker", one(DONE, lease=lease(epoch=[LATER, 1]))),
        "a lease beyond any number": ("worker", one(DONE, lease=lease(epoch=[10**30, 1]))),
        "a lease before time": ("worker", one(DONE, lease=lease(epoch=[0, 1]))),
        "a lease never delivered": ("worker", one(DONE, lease=lease(epoch=[1, 0]))),
        "the pool of others": ("worker", one(DONE, lease=lease(pool="gpu"))),
        "no pool": ("worker", one(DONE, lease=lease(pool=None))),
        "a worker's record of an iteration": ("worker", one(DONE, lease=lease(index=0))),
        "an index beyond any loop": ("iteration", one(event("loop.iteration.done"), writer="iteration",
                                                      lease=lease(index=2**40))),
        "an empty run": ("worker", one(DONE, lease=lease(run_id=""))),
        "a long run": ("worker", one(DONE, lease=lease(run_id=LONG))),
        "a worker that is an escape": ("worker", one(DONE, lease=lease(worker="\x1b]52;c;x\x07"))),
        "number 0": ("worker", one(DONE, n=0)),
        "attempt -1": ("worker", one(event("task.started", task="t", attempt=-1))),
        "a delay before now": ("worker", one(event("task.retried", task="t", attempt=1, outcome={"status": "ok"},
                                                   delay=-1.0))),
        "no time": ("worker", one(DONE, ts="noon")),
        "a time without a zone": ("worker", one(DONE, ts="2026-01-01T00:00:00")),
        "the end of time": ("worker", one(DONE, ts="9999-12-31T23:59:59Z")),
        "a wait until no time": ("waiting", one(event("task.waiting", task="t", attempt=1, wait="w", until="soon"),
                                                writer="waiting")),
        "a child that is no execution": ("waiting", one(
            event("task.waiting", task="t", attempt=1, wait="w", child={"execution_id": "a.>", "path": "p"}),
            writer="waiting")),
        "a reference out of the store": ("worker", one(event("step.done", result={"ref": {
            "store": "nats", "key": "a/b/c", "checksum": "x", "size": 1}}))),
        "a reference beyond any size": ("worker", one(event("step.done", result={"ref": {
            "store": "nats", "key": f"x/{'a' * 64}", "checksum": "a" * 64, "size": 2**60}}))),
        "an unknown event": ("worker", one(event("step.forged"))),
        "a version to come": ("worker", one(DONE, v=99)),
        "no JSON": ("worker", b"{"),
        "no UTF-8": ("worker", b'{"execution_id":"\xff\xfe"}'),
        "nothing": ("worker", b""),
        "a list": ("worker", b"[]"),
        "nested beyond reading": ("waiting", b"[" * 300_000),
        "nested deeply": ("waiting", one(event("step.done", result={"value": nested(900)}), writer="waiting")),
        "nested too deeply": ("worker", one(event("step.done", result={"value": nested(250)}))),
        "almost a megabyte": ("worker", one(event("step.done", result={"value": "y" * 950_000}))),
    }


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


async def test_nothing_a_worker_forges_changes_a_decision_or_stops_anyone(run: Running) -> None:
    execution_id, other = await waiting(run), await waiting(run)
    before = [body for writer, body in await records(run, execution_id) if writer in ("router", "scheduler", "control")]
    async with lying(run) as liar:
        for writer, body in forgeries(execution_id, other).values():
            await liar.says(execution_id, body, writer=writer)
        elsewhere = (subjects.partition_of(execution_id, run.partitions) + 1) % run.partitions
        await liar.says(execution_id, record(execution_id, DONE), partition=elsewhere)
        await liar.are_told()
        for each in (execution_id, other):
            after = [body for writer, body in await records(run, each) if writer in ("router", "scheduler", "control")]
            assert len(after) == len(before), "something was decided"
            await run.signal(each, "go", {"by": "test"})
        for each in (execution_id, other):
            assert (await run.ended(each)).status == "completed"
        found = await verdict(run, execution_id)
        assert {violation.rule for violation in found.violations} == {"forged"}
        assert len(found.violations) == len(forgeries("", ""))
        assert (await verdict(run, other)).verdict == "verified"
    assert all([await unit.ready() for unit in run.stack.units])


async def test_a_forged_record_stays_without_effect_over_a_restart(run: Running) -> None:
    """The log is sealed: what cannot be read is there for whoever loads the execution next."""
    execution_id = await waiting(run)
    async with lying(run) as liar:
        for name in ("a cancel", "no events", "a lease of the future", "nested beyond reading", "no UTF-8"):
            writer, body = forgeries(execution_id, execution_id)[name]
            await liar.says(execution_id, body, writer=writer)
        await liar.are_told()
    for unit in run.stack.units:
        if unit.name.startswith(("router", "scheduler")):
            await restarted(unit)
    await run.signal(execution_id, "go", {})
    assert (await run.ended(execution_id)).status == "completed"


async def restarted(unit: Unit) -> None:
    await unit.end()
    unit.stop = asyncio.Event()
    unit.health.ready = False
    unit.task = asyncio.create_task(unit.as_task())  # type: ignore[arg-type]  # its exit code is nobody's
    await until(unit.ready, f"{unit.name} is ready", WAIT_S)
