"""A pool speaks for itself alone: its workers write under its name, and cannot keep another's results out."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from shared.bus.topology import RESULTS
from shared.errors import Refused
from shared.events import subjects
from shared.events.request import Request
from tests.support.forging import POOLS, lying, records, stack
from tests.support.running import Running

pytestmark = pytest.mark.asyncio(loop_scope="module")
LARGE = "v" * 300_000
BOOK = """\
- step: start
  tool: {kind: noop, args: {text: "{{ 'v' * 300000 }}"}}
  next: {arcs: [{step: after, args: {size: "{{ start.text | length }}"}}]}
- step: after
  tool: {kind: noop, args: {size: "{{ args.size }}"}}
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def run(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    folder: Path = tmp_path_factory.mktemp("stack")
    async with stack(folder) as one:
        await one.register("large", BOOK)
        yield one


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("writer", sorted(subjects.LEASED))
async def test_a_worker_writes_under_the_name_of_its_own_pool_alone(run: Running, pool: str, writer: str) -> None:
    other = next(each for each in POOLS if each != pool)
    async with lying(run, pool) as worker:
        assert await worker.bus.append(subjects.event(0, "nobody", writer, pool), b"{}")
        for place in (other, "", "*", ">", f"{pool}.{other}"):
            with pytest.raises(Refused):
                await worker.bus.append(subjects.event(0, "nobody", writer, place), b"{}")


@pytest.mark.parametrize("pool", POOLS)
async def test_a_worker_stores_beside_others_under_the_name_of_its_own_pool_alone(run: Running, pool: str) -> None:
    other = next(each for each in POOLS if each != pool)
    async with lying(run, pool) as worker:
        assert await worker.bus.append(subjects.result("nobody", "sum", 0, pool), b"{}")
        for owner in (other, subjects.NO_POOL):
            with pytest.raises(Refused):
                await worker.bus.append(subjects.result("nobody", "sum", 0, owner), b"{}")


async def test_a_result_is_what_its_step_left_whoever_wrote_to_its_key_first(run: Running) -> None:
    """A worker of another pool knows what the step will say, and is faster."""
    execution_id = "squatted"
    data = msgspec.json.encode({"text": LARGE})
    checksum = hashlib.sha256(data).hexdigest()
    async with lying(run, "gpu") as liar:
        await liar.bus.append(subjects.result(execution_id, checksum, 0), b'{"text": "forged"}')
    await started(run, execution_id)
    assert (await run.ended(execution_id)).status == "completed"
    assert await run.bus.read(RESULTS, [subjects.result(execution_id, checksum, "*", "*")]), "another value was stored"
    sizes = [
        event["args"]["size"] for writer, body in await records(run, execution_id) if writer == "router"
        for event in body["events"] if event["event_type"] == "step.scheduled" and event["step"] == "after"
    ]
    assert sizes == [len(LARGE)]


async def started(run: Running, execution_id: str) -> None:
    await run.bus.append(subjects.EXECUTE, msgspec.json.encode(Request("large", execution_id=execution_id)))
