"""Records that make no sense, from a worker's user and from whoever can write anything: they stop no service and no
other execution, before and after a restart. The execution that they are about says what is the matter."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from services.cli.doctor import set_aside as check
from services.cli.executions import set_aside
from shared.bus import topology
from shared.bus.jetstream import JetStreamBus
from shared.events import subjects
from shared.events.stamp import stamp
from shared.runtime.control.set_aside import every, read
from shared.runtime.service.main import connect
from tests.conformance.stand.stage import Stage, stage
from tests.support.forging import event

__all__ = ["stage"]

pytestmark = pytest.mark.asyncio(loop_scope="module")
WAITS = "- step: start\n  tool: {kind: signal, name: start_task, signal: go}\n"
PLAIN = "- step: start\n  tool: {kind: noop}\n  next: {arcs: [{step: more}]}\n- step: more\n" \
        "  loop: {in: \"{{ [1, 2, 3] }}\", iterator: n}\n  tool: {kind: noop}\n"
WITHIN_S = 30.0
NOW = stamp(1_800_000_000.0)
DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worker(stage: Stage) -> AsyncIterator[JetStreamBus]:
    bus = await connect("poison", stage.stack.settings_for("worker_default"))
    assert isinstance(bus, JetStreamBus)
    yield bus
    await bus.close()


def lease(**fields: Any) -> dict[str, Any]:
    return {"run_id": "start:1", "step": "start", "worker": "w", "index": -1, "pool": "default", **fields}


def record(execution: str, writer: str, *events: dict[str, Any], **fields: Any) -> bytes:
    body = {"execution_id": execution, "writer": writer, "n": 1, "ts": NOW, "events": list(events), **fields}
    return msgspec.json.encode(body)


DONE, FAILED, STARTED = event("step.done"), event("step.failed", error={}), event("step.started")
WAITING = event("task.waiting", task="start_task", attempt=1, wait="start_task/1")
CHILD = {**WAITING, "child": {"execution_id": "somebody-elses", "path": "a"}}
# What a worker of the pool can write; none of it may change anything.
OF_WORKER: dict[str, tuple[str, Any, Any]] = {
    "a wait without a lease": ("waiting", [WAITING], None),
    "no events": ("worker", [], lease()),
    "a decision": ("worker", [event("next.selected", run_id="none:7", step="none", event="step.done")], lease()),
    "a run that is not there": ("worker", [DONE], lease(run_id="start:9")),
    "a run without a number": ("worker", [DONE], lease(run_id="start")),
    "a run with a huge number": ("worker", [DONE], lease(run_id="start:" + "9" * 200)),
    "another step": ("worker", [DONE], lease(step="more")),
    "another pool": ("worker", [DONE], lease(pool="lonely")),
    "an iteration of a plain run": ("iteration", [event("loop.iteration.done")], lease(index=5)),
    "a frame where there is none": ("iteration", [event("loop.frame.claimed", count=3)], lease(index=-2)),
    "a loop as a whole that is none": ("iteration", [event("loop.halted", next=3)], lease()),
    "an epoch of the far future": ("worker", [DONE], lease(epoch=[9 * 10**18, 1])),
    "a child that is somebody else's": ("waiting", [CHILD], lease()),
    "a wait until never": ("waiting", [{**WAITING, "until": "never"}], lease()),
    "words after the end": ("worker", [DONE, STARTED, DONE], lease()),
    "a failure of another run": ("worker", [{**FAILED, "run_id": "start:1"}], lease()),
}
# What only services write, put there by hand: the execution is set aside.
OF_CONTROL: dict[str, tuple[str, dict[str, Any], str]] = {
    "a run that is not there": ("router", event("next.selected", run_id="none:7", step="none", event="step.done"),
                                "router"),
    "a token that is not there": ("router", event("token.rejected", token_id="t77", step="none"), "router"),
    "a loop that is none": ("scheduler", event("loop.frame.started", run_id="start:1", frame=0, size=-5), "scheduler"),
}


async def put(bus: JetStreamBus, stage: Stage, execution: str, writer: str, data: bytes) -> int:
    partition = subjects.partition_of(execution, stage.partitions)
    pool = ".default" if writer in ("worker", "iteration", "waiting") else ""
    return await bus.append(f"{subjects.EVENTS}.{partition}.{execution}.{writer}{pool}", data)


async def ends(stage: Stage, execution: str, status: str = "completed") -> None:
    await stage.stalled(execution, "over", lambda _, answer: answer.status == status)


def crashes(stage: Stage) -> list[str]:
    lines = (stage.stack.options.folder / "services.log").read_text().splitlines()
    return [line for line in lines if "service.crashed" in line or "service.restarts" in line]


async def caught_up(stage: Stage) -> None:
    """Router and scheduler have passed all that the log holds now."""
    async with asyncio.timeout(WITHIN_S):
        for partition in range(stage.partitions):
            last = await stage.bus.last_seq(topology.events_stream(partition))
            for service in ("router", "scheduler"):
                while True:
                    entry = await stage.bus.kv_get(topology.CURSORS, f"{service}.{partition}")
                    if not last or (entry and msgspec.json.decode(entry.value)["seq"] >= last - 3):
                        break
                    await asyncio.sleep(0.1)


async def others_go_on(stage: Stage) -> None:
    for _ in range(2 * stage.partitions):  # in all partitions, by and large
        await ends(stage, await stage.begin(PLAIN))
    assert crashes(stage) == []


async def restarted(stage: Stage) -> None:
    async with stage.without("router"), stage.without("scheduler"):
        pass


async def test_nothing_that_a_worker_can_write_changes_or_stops_anything(stage: Stage, worker: JetStreamBus) -> None:
    execution = await stage.begin(WAITS)
    await stage.stalled(execution, "wait.signal")
    now = round(await stage.bus.time() * 1e9)  # later than the lease of the run, so that nothing of it is late
    for writer, events, held in OF_WORKER.values():
        fields = {"lease": {"epoch": [now, 1], **held}} if held is not None else {}
        await put(worker, stage, execution, writer, record(execution, writer, *events, **fields))
    forged = record(execution, "router", event("cancel.requested"))
    for data in (b"", b"{", b"\xff\xfe", DEEP, b'{"a":' + DEEP + b"}", b"\x00" * 900_000, forged):
        for writer in ("worker", "iteration", "waiting"):
            await put(worker, stage, execution, writer, data)
    await others_go_on(stage)
    await stage.stalled(execution, "wait.signal")
    await restarted(stage)
    await stage.stalled(execution, "wait.signal")
    assert await read(stage.bus, execution) == []
    await stage.tell(subjects.SIGNAL, execution, name="go")
    await ends(stage, execution)
    await others_go_on(stage)


@pytest.mark.parametrize("name", OF_CONTROL)
async def test_a_decision_that_cannot_be_sets_its_execution_aside(stage: Stage, name: str) -> None:
    writer, body, service = OF_CONTROL[name]
    execution = await stage.begin(WAITS)
    await stage.stalled(execution, "wait.signal")
    await asyncio.sleep(0.3)  # what follows from the wait is decided
    n = await next_n(stage, execution, writer)
    await put(stage.bus, stage, execution, writer, record(execution, writer, body, n=n))
    await stage.tell(subjects.SIGNAL, execution, name="go")
    reason, _ = await stage.stalled(execution, f"{service}.aside")
    assert reason.mover == "nothing"
    assert reason.values["reason"], reason
    await others_go_on(stage)
    await restarted(stage)
    await stage.stalled(execution, f"{service}.aside")
    await others_go_on(stage)
    (shown, *_) = await set_aside.shown(stage.bus, execution)
    assert "set aside by the" in set_aside.sentence(shown)
    found = check.found(await every(stage.bus))
    assert found.status == "problem"
    assert execution in found.found or "more" in found.found


@pytest.mark.parametrize("data", [b"{}", b"\xff", DEEP, b"", b"\x00" * 900_000])
@pytest.mark.parametrize("writer", ["router", "scheduler", "control"])
async def test_a_record_of_a_service_that_cannot_be_read(stage: Stage, writer: str, data: bytes) -> None:
    execution = await stage.begin(WAITS)
    await stage.stalled(execution, "wait.signal")
    await put(stage.bus, stage, execution, writer, data)
    await stage.stalled(execution, "log.corrupt")
    await stage.stalled(execution, "scheduler.aside" if writer == "router" else "router.aside")
    await ends(stage, await stage.begin(PLAIN))
    assert crashes(stage) == []


async def test_a_snapshot_that_cannot_be_is_not_believed(stage: Stage) -> None:
    execution = await stage.begin(WAITS)
    await stage.stalled(execution, "wait.signal")
    async with stage.without("router"), stage.without("scheduler"):
        for bucket in (topology.CTX, topology.LOOPS):
            for data in (b"4 {", b"4 \xff", b"4 " + DEEP, b"4 []"):
                await stage.bus.kv_put(bucket, execution, data)
    await stage.tell(subjects.SIGNAL, execution, name="go")
    await ends(stage, execution)


async def next_n(stage: Stage, execution: str, writer: str) -> int:
    partition = subjects.partition_of(execution, stage.partitions)
    messages = await stage.bus.read(
        topology.events_stream(partition), [f"{subjects.EVENTS}.{partition}.{execution}.{writer}"])
    return 1 + sum(len(msgspec.json.decode(message.data)["events"]) for message in messages)
