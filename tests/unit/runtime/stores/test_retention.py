"""One document for the stack: compared and set, and the setting where there is none."""

import pytest

from shared.bus import topology
from shared.bus.ports import Bus
from shared.errors import Conflict, Corrupt
from shared.runtime.service.retention import BadRetention
from shared.runtime.stores import retention
from tests.support.memory_bus import memory_bus


async def test_the_setting_holds_until_there_is_a_document() -> None:
    bus = memory_bus()
    assert (await retention.policy(bus, ["results=30d"])).kept.results == 30 * 86_400
    assert await retention.ages(bus, []) == {}
    changed = await retention.change(bus, ["requests=2d"], ["results=30d"], "me@here")
    assert (changed.by, changed.kept.results, changed.kept.requests) == ("me@here", 30 * 86_400, 2 * 86_400)
    now = await retention.policy(bus, ["results=1d"])
    assert now == changed
    assert await retention.ages(bus, []) == {topology.REQUESTS: 2 * 86_400.0, topology.DEAD: 90 * 86_400.0}


async def test_the_same_again_changes_nothing() -> None:
    bus = memory_bus()
    first = await retention.change(bus, ["results=30d"], (), "one")
    assert await retention.change(bus, ["results=30d"], (), "two") == first


async def test_what_another_has_set_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    bus = memory_bus()
    await retention.change(bus, ["results=30d"], (), "one")
    looked = retention.policy

    async def late(bus: Bus, setting: tuple[str, ...]) -> retention.Policy:
        now = await looked(bus, setting)
        monkeypatch.setattr(retention, "policy", looked)
        await retention.change(bus, ["dead_letters=3d"], (), "two")
        return now

    monkeypatch.setattr(retention, "policy", late)
    kept = (await retention.change(bus, ["results=10d"], (), "one")).kept
    assert (kept.results, kept.dead_letters) == (10 * 86_400, 3 * 86_400)


async def test_one_who_never_comes_first_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    bus = memory_bus()

    async def old(_: Bus, setting: tuple[str, ...]) -> retention.Policy:
        return retention.Policy(retention.parsed(setting), revision=99)

    monkeypatch.setattr(retention, "policy", old)
    with pytest.raises(Conflict, match="all the time"):
        await retention.change(bus, ["results=10d"], (), "one")


async def test_nothing_is_set_that_contradicts_what_holds() -> None:
    bus = memory_bus()
    await retention.change(bus, ["results=30d", "read_model=60d"], (), "one")
    with pytest.raises(BadRetention):
        await retention.change(bus, ["results=90d"], (), "one")


@pytest.mark.parametrize("document", [b"nonsense", b'{"kept":{"log":1},"at":1}', b'{"kept":{"read_model":1},"at":1}'])
async def test_a_document_that_means_nothing_is_not_guessed_at(document: bytes) -> None:
    bus = memory_bus()
    await bus.kv_put(topology.SETTINGS, retention.KEY, document)
    with pytest.raises(Corrupt):
        await retention.policy(bus, ())
