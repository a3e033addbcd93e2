"""A version means one source; what a path named before can be had again; no execution loses its source."""

import pytest

from shared.bus import topology
from shared.bus.memory.bus import MemoryBus
from shared.dsl.authoring.revision import states_version
from shared.dsl.compile import compile_playbook
from shared.dsl.model.plan import Plan
from shared.runtime.stores import catalog
from shared.runtime.stores import catalog_versions as versions
from shared.runtime.stores.catalog import NotRegistered
from shared.tools import registry
from tests.support.memory_bus import memory_bus

PATH = "shop/orders"


def source(number: int, version: str = "") -> bytes:
    stated = f", version: '{version}'" if version else ""
    return (f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: orders, path: {PATH}{stated}}}\n"
            f"workload: {{n: {number}}}\nworkflow:\n  - step: start\n    tool: {{kind: noop}}\n").encode()


def plan(text: bytes) -> Plan:
    found = compile_playbook(text, kinds=registry.specs()).plan
    assert found is not None
    return found


async def put(bus: MemoryBus, number: int, version: str = "", **more: bool) -> versions.Placed:
    text = source(number, version)
    return await versions.place(bus, text, plan(text), stated=states_version(text), by="me@here", **more)


async def told(bus: MemoryBus) -> list[tuple[str, str]]:
    return [(each.what, each.entry.version) for each in (await versions.of(bus, PATH)).history]


async def latest(bus: MemoryBus) -> bytes:
    return await catalog.source(bus, (await catalog.find(bus, PATH)).digest)


async def test_a_source_without_a_version_gets_the_next_one() -> None:
    bus = memory_bus()
    placed = [await put(bus, number) for number in (1, 2, 2, 1)]
    assert [(each.entry.version, each.status) for each in placed] == [
        ("1", "created"), ("2", "created"), ("2", "unchanged"), ("1", "restored")]
    assert await latest(bus) == source(1)
    assert await told(bus) == [("registered", "1"), ("registered", "2"), ("latest", "1")]


async def test_a_stated_version_means_one_source_unless_it_is_replaced() -> None:
    bus = memory_bus()
    first = await put(bus, 1, "1.0")
    with pytest.raises(versions.VersionTaken) as refused:
        await put(bus, 2, "1.0")
    assert refused.value.known == first.entry
    assert await latest(bus) == source(1, "1.0")
    over = await put(bus, 2, "1.0", over=True)
    assert (over.status, over.before) == ("changed", first.entry)
    assert await latest(bus) == source(2, "1.0")
    assert await told(bus) == [("registered", "1.0"), ("replaced", "1.0")]


async def test_a_dry_run_decides_and_writes_nothing() -> None:
    bus = memory_bus()
    assert (await put(bus, 1, dry_run=True)).status == "created"
    with pytest.raises(NotRegistered):
        await versions.of(bus, PATH)


async def test_two_who_register_under_one_version_at_once_do_not_overwrite_each_other(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = memory_bus()
    store, rivals = catalog.store, [9]

    async def while_another_is_faster(on: MemoryBus, entry: catalog.Entry, text: bytes) -> None:
        await store(on, entry, text)
        if rivals:
            await put(bus, rivals.pop(), "1.0")

    monkeypatch.setattr(catalog, "store", while_another_is_faster)
    with pytest.raises(versions.VersionTaken):
        await put(bus, 1, "1.0")
    assert await latest(bus) == source(9, "1.0")


async def test_the_way_back_is_to_what_was_before_to_a_version_or_to_a_replaced_source() -> None:
    bus = memory_bus()
    for number in (1, 2, 3):
        await put(bus, number)
    replaced = await put(bus, 4, over=True)
    assert (replaced.entry.version, replaced.status) == ("3", "changed")
    assert replaced.before is not None
    before, now = await versions.roll_back(bus, PATH, "", "me@here")
    assert before is not None
    assert (before.digest, now.digest) == (replaced.entry.digest, replaced.before.digest)
    assert await latest(bus) == source(3)
    assert (await catalog.find(bus, PATH, "3")).digest == now.digest
    await versions.roll_back(bus, PATH, "1", "me@here")
    assert await latest(bus) == source(1)
    await versions.roll_back(bus, PATH, replaced.entry.digest[:10], "me@here")
    assert await latest(bus) == source(4)
    with pytest.raises(NotRegistered, match=r"no version '7'.*versions: 1, 2, 3"):
        await versions.roll_back(bus, PATH, "7", "me@here")


async def test_a_deleted_version_leaves_the_one_before_as_the_latest_and_every_source() -> None:
    bus = memory_bus()
    digests = [(await put(bus, number)).entry.digest for number in (1, 2, 3)]
    await versions.roll_back(bus, PATH, "1", "me@here")
    await versions.roll_back(bus, PATH, "3", "me@here")
    gone, left = await versions.delete(bus, PATH, "3", "you@there")
    assert [each.version for each in gone] == ["3"]
    assert left is not None
    assert left.version == "1"
    assert await latest(bus) == source(1)
    with pytest.raises(NotRegistered):
        await catalog.find(bus, PATH, "3")
    last = (await versions.of(bus, PATH)).history[-1]
    assert (last.what, last.entry.version, last.entry.by) == ("deleted", "3", "you@there")
    assert (await put(bus, 5)).entry.version == "4", "a deleted version is not given again"
    await versions.delete(bus, PATH, "", "you@there")
    assert await catalog.everything(bus) == []
    with pytest.raises(NotRegistered):
        await catalog.find(bus, PATH)
    assert [await catalog.source(bus, digest) for digest in digests] == [source(n) for n in (1, 2, 3)]
    assert (await put(bus, 3)).status == "created"


async def test_a_deletion_that_was_cut_short_is_a_deletion() -> None:
    bus = memory_bus()
    await put(bus, 1, "1.0")
    delete = bus.kv_delete

    async def cut(bucket: str, key: str) -> None:
        if key.endswith("="):
            await delete(bucket, key)

    bus.kv_delete = cut  # type: ignore[method-assign]  # the second half does not happen
    await versions.delete(bus, PATH, "", "me@here")
    with pytest.raises(NotRegistered):
        await catalog.find(bus, PATH, "1.0")
    assert await catalog.everything(bus) == []
    assert (await put(bus, 2, "1.0")).status == "created"


async def test_an_entry_of_an_earlier_catalogue_has_a_history_from_now_on() -> None:
    bus = memory_bus()
    digest = catalog.entry_of(source(1), plan(source(1))).digest
    await bus.kv_put(topology.PLAYBOOKS, f"source.{digest}", source(1))
    for version in ("1", ""):
        old = f'{{"path":"{PATH}","version":"1","digest":"{digest}"}}'.encode()
        await bus.kv_put(topology.PLAYBOOKS, catalog.key_of(PATH, version), old)
    assert (await put(bus, 1)).status == "unchanged"
    assert (await put(bus, 2)).entry.version == "2"
    assert await told(bus) == [("registered", "1"), ("registered", "2")]


async def test_versions_are_listed_in_their_order() -> None:
    bus = memory_bus()
    for number, version in enumerate(("10", "9", "1.10", "1.9", "b")):
        await put(bus, number, version)
    assert [entry.version for entry, _ in await catalog.everything(bus)] == ["b", "1.9", "1.10", "9", "10"]
