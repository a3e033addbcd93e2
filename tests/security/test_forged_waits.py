"""A wait makes the scheduler act for a worker: it starts a playbook, in whatever pool. So what a wait may ask for is
the plan's to say, and not that of whoever has a worker's credentials."""

import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from shared.engine.leases.lease_fit import child_of
from shared.events.record import Lease
from shared.events.stamp import stamp
from tests.support.forging import Liar, event, lying, records, stack, verdict
from tests.support.running import WAIT_S, Running
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")
HELD = """\
- step: start
  tool:
    name: hold
    kind: python
    code: |
      import os, time
      while not os.path.exists("GATE"): time.sleep(0.05)
      result = 7
"""
SECRET = """\
- step: start
  spec: {pool: gpu}
  tool: {kind: noop}
"""
CALLS = """\
- step: start
  tool: {name: hold, kind: playbook, path: held}
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def run(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    folder: Path = tmp_path_factory.mktemp("stack")
    async with stack(folder) as one:
        await one.register("secret", SECRET)
        await one.register("calls", CALLS)
        yield one


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def release(run: Running, tmp_path: Path) -> AsyncIterator[Callable[[], None]]:
    """Ends what `held` runs: a worker has room for few programs that do not end."""
    gate = tmp_path / "gate"
    await run.register("held", HELD.replace("GATE", str(gate)))
    yield gate.touch
    gate.touch()


async def at_work(run: Running, path: str) -> tuple[str, dict[str, Any]]:
    """An execution whose first run a worker has had, and what a later lease of it would say of itself."""
    execution_id = await run.start(path)
    found = await until(lambda: records(run, execution_id), "a worker has it", WAIT_S, every_s=0.05,
                        so=lambda found: any("lease" in body for _, body in found))
    lease = next(body["lease"] for _, body in found if "lease" in body)
    return execution_id, {**lease, "epoch": [lease["epoch"][0] + 1, lease["epoch"][1] + 1], "worker": "liar"}


async def waits(liar: Liar, execution_id: str, lease: dict[str, Any], wait: str, **asked: Any) -> None:
    said = event("task.waiting", task="hold", attempt=1, wait=wait, **asked)
    await liar.says(execution_id, {
        "execution_id": execution_id, "writer": "waiting", "n": 1, "ts": stamp(time.time()), "lease": lease,
        "events": [event("step.started"), event("task.started", task="hold", attempt=1), said],
    }, writer="waiting")


async def waits_for(liar: Liar, execution_id: str, lease: dict[str, Any], wait: str, path: str) -> str:
    """The child has the id that follows from its wait."""
    child = child_of(execution_id, Lease(lease["run_id"], lease["step"], (1, 1), "liar"), wait)
    await waits(liar, execution_id, lease, wait, child={"execution_id": child, "path": path, "payload": {"x": 4}})
    return child


async def test_a_task_that_starts_no_playbook_cannot_be_made_to(run: Running) -> None:
    execution_id, lease = await at_work(run, "held")
    async with lying(run) as liar:
        child = await waits_for(liar, execution_id, lease, "hold/1", "secret")
        await liar.are_told()
    ended = await run.ended(execution_id)
    assert (ended.status, ended.error and ended.error["kind"]) == ("failed", "internal")
    assert "kind python" in str(ended.error)
    assert await records(run, child) == [], "it was started"
    found = await verdict(run, execution_id)
    assert [(violation.rule, "python" in violation.message) for violation in found.violations] == [("wait", True)]


async def test_a_task_starts_no_playbook_but_its_own(run: Running) -> None:
    execution_id, lease = await at_work(run, "calls")
    async with lying(run) as liar:
        child = await waits_for(liar, execution_id, lease, "hold/2", "secret")
        await liar.are_told()
    ended = await run.ended(execution_id)
    assert "path 'held', not 'secret'" in str(ended.error)
    assert await records(run, child) == [], "it was started"
    found = await verdict(run, execution_id)
    assert {violation.rule for violation in found.violations} == {"wait"}


async def test_a_wait_for_nothing_is_no_record(run: Running, release: Callable[[], None]) -> None:
    execution_id, lease = await at_work(run, "held")
    async with lying(run) as liar:
        await waits(liar, execution_id, lease, "hold/1")
        await waits(liar, execution_id, lease, "hold/1", until="")
        await liar.are_told()
    release()
    assert (await run.ended(execution_id)).status == "completed"
    found = await verdict(run, execution_id)
    assert [violation.rule for violation in found.violations] == ["forged", "forged"]
