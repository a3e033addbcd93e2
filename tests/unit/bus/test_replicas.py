"""A read over replicas that are behind, each by something else, is whole and not old; or it says that it cannot."""

import random

import pytest

from shared.bus import replicas
from shared.bus.memory.bus import MemoryBus
from shared.bus.replicas import cover
from shared.bus.topology import events_stream
from shared.errors import Unavailable
from tests.support.memory_bus import memory_bus

STREAM = events_stream(0)
SUBJECTS = [f"noetl.events.0.x.{writer}" for writer in ("router", "scheduler", "worker")]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "PAUSES_S", (0.0001,) * 7)


async def _filled(seed: int) -> tuple[MemoryBus, list[int], random.Random]:
    rng = random.Random(seed)
    bus = memory_bus()
    for _ in range(rng.randint(0, 30)):
        await bus.append(rng.choice([*SUBJECTS, "noetl.events.0.x.iteration", "noetl.events.0.y.router"]), b"")
    return bus, [m.seq for m in await bus.read(STREAM, SUBJECTS)], rng


@pytest.mark.parametrize("seed", range(150))
async def test_any_lag_that_ends_gives_the_whole_log(seed: int) -> None:
    bus, whole, rng = await _filled(seed)
    behind = [rng.choice((0, 1, 2, 5, 40)) for _ in range(6)]
    bus.broker.lag = lambda _client, _stream: behind.pop() if behind else 0
    after, filters = rng.choice((0, 0, 3, 10)), rng.sample(SUBJECTS, rng.randint(1, 3))
    found = await bus.read(STREAM, filters, after)
    stored = bus.broker.stream(STREAM).stored
    assert [m.seq for m in found] == [s for s in whole if s > after and stored[s].message.subject in filters]


async def test_replicas_that_stay_behind_make_it_unavailable_and_not_short() -> None:
    bus, whole, _ = await _filled(5)
    assert len(whole) > 3
    bus.broker.lag = lambda _client, _stream: 40
    for filters in (SUBJECTS, SUBJECTS[:1]):
        with pytest.raises(Unavailable, match="replicas"):
            await bus.read(STREAM, filters)
    assert await bus.read(STREAM, SUBJECTS, whole[-1] + 30) == []  # nothing is beyond: no replica is needed
    assert await bus.read(STREAM, ["noetl.events.0.none.router", "noetl.events.0.none.worker"]) == []


async def test_only_who_takes_any_copy_gets_an_old_one() -> None:
    bus, _, _ = await _filled(0)
    seq = await bus.append(SUBJECTS[0], b"last")
    revision = await bus.kv_put("noetl_ctx", "k", b"v")
    bus.broker.lag = lambda _client, _stream: 1
    last, entry = await bus.get(STREAM, SUBJECTS[0]), await bus.kv_get("noetl_ctx", "k")
    assert last is not None
    assert entry is not None
    assert (last.seq, entry.revision) == (seq, revision)
    assert await bus.get(STREAM, SUBJECTS[0], any_copy=True) is None
    assert await bus.kv_get("noetl_ctx", "k", any_copy=True) is None


@pytest.mark.parametrize(("filters", "covered"), [
    (["a.b.c", "a.b.d"], "a.b.>"), (["a.b", "c.d"], ">"), (["a.*.c", "a.*.d"], "a.*.>"), (["a.>", "a.b"], "a.>"),
    (["a.b", "a.b.c"], "a.>"),
])
def test_what_covers_filters(filters: list[str], covered: str) -> None:
    assert cover(filters) == covered


@pytest.mark.parametrize("seed", range(60))
async def test_what_is_written_meanwhile_makes_no_hole(seed: int) -> None:
    bus, _, rng = await _filled(seed)
    stream = bus.broker.stream(STREAM)

    def lag(_client: str, _stream: str) -> int:
        for _ in range(rng.randint(0, 2)):
            stream.append(rng.choice(SUBJECTS), b"", None, None, 0.0)
        return rng.choice((0, 0, 1))

    bus.broker.lag = lag
    confirmed = stream.read(SUBJECTS, 0)
    found = await bus.read(STREAM, SUBJECTS)
    assert found == stream.read(SUBJECTS, 0)[: len(found)]
    assert len(found) >= len(confirmed)
