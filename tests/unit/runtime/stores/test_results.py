"""A value counts as stored when it can be read back, not when its subject is said to be taken."""

import asyncio
import hashlib
from typing import Any

import pytest

from shared.bus import topology
from shared.bus.memory.bus import MemoryBroker, MemoryBus
from shared.dsl.model.plan import PlanMissing
from shared.engine.values.stored_values import STORE, value_of
from shared.errors import Corrupt, Duplicate, Unavailable
from shared.events import subjects
from shared.events.outcome import Ref
from shared.runtime.service.clock import SystemClock
from shared.runtime.stores import results
from tests.support.memory_bus import memory_bus


class Promising(MemoryBus):
    """Says of every write-once subject that it is taken: by a write that is on its way and will not arrive."""

    async def append(
        self, subject: str, data: bytes, *, expected: int | None = None, headers: dict[str, str] | None = None
    ) -> int:
        raise Duplicate(f"{subject}: maximum messages per subject exceeded (10077)")


async def test_a_value_that_is_only_on_its_way_is_not_stored() -> None:
    broker = MemoryBroker(SystemClock(), topology.wanted(partitions=1))
    with pytest.raises(Unavailable):
        await results.store(Promising(broker), "x", {"sum": b"value"})
    await results.store(MemoryBus(broker), "x", {"sum": b"value"})
    await results.store(Promising(broker), "x", {"sum": b"value"})
    await results.store(MemoryBus(broker), "x", {"sum": b"value"})


LONG = b'"' + b"v" * (results.CHUNK_BYTES + 10) + b'"'
CHECKSUM = hashlib.sha256(LONG).hexdigest()
REF = Ref(STORE, f"x/{CHECKSUM}", CHECKSUM, len(LONG))


@pytest.mark.parametrize("chunk", [0, 1])
async def test_a_value_gets_in_beside_the_bytes_that_someone_else_put_under_its_key(chunk: int) -> None:
    one = memory_bus()
    await one.append(subjects.result("x", CHECKSUM, chunk), b"not it")
    await results.store(one, "x", {CHECKSUM: LONG}, "gpu")
    await results.store(one, "x", {CHECKSUM: LONG}, "gpu")
    await results.store(one, "x", {CHECKSUM: LONG})  # a control service has the same one
    assert await results.load(one, REF) == LONG.decode()[1:-1]


async def test_a_value_whose_own_place_is_taken_too_is_refused_by_its_key() -> None:
    one = memory_bus()
    for owner in ("", "gpu"):
        await one.append(subjects.result("x", CHECKSUM, 0, owner), b"not it")
    with pytest.raises(results.Occupied, match=f"x/{CHECKSUM}"):
        await results.store(one, "x", {CHECKSUM: LONG}, "gpu")
    with pytest.raises(results.ValueMissing):
        await results.load(one, REF)
    await one.append(subjects.result("x", CHECKSUM, 1), b"nor that")
    with pytest.raises(Corrupt, match="does not match"):
        await results.load(one, REF)


@pytest.mark.parametrize("data", [b"[" * 5000, b'"\xff"', b"{"])
async def test_a_value_that_is_no_json_is_corrupt(data: bytes) -> None:
    one, checksum = memory_bus(), hashlib.sha256(data).hexdigest()
    await results.store(one, "x", {checksum: data})
    with pytest.raises(Corrupt, match="a stored value"):
        await results.load(one, Ref(STORE, f"x/{checksum}", checksum, len(data)))


class Plans:
    def __init__(self) -> None:
        self.there: set[str] = set()

    async def load(self, digest: str) -> None:
        self.there.add(digest)


async def test_what_pure_work_asks_for_is_brought_and_its_result_is_given() -> None:
    one, plans, values = memory_bus(), Plans(), dict[str, Any]()
    await results.store(one, "x", {CHECKSUM: LONG})

    def work() -> int:
        if "digest" not in plans.there:
            raise PlanMissing("digest")
        return len(value_of(REF, values))

    assert await results.brought(one, values, work, plans) == len(LONG) - 2
    assert await results.brought(one, {}, lambda: len(values), run=asyncio.to_thread) == 1


async def test_who_has_no_plans_is_told_of_the_one_that_is_missing() -> None:
    def work() -> None:
        raise PlanMissing("digest")

    with pytest.raises(PlanMissing):
        await results.brought(memory_bus(), {}, work)
