"""All that the engine needs on a broker which `noetlctl up` did not start: streams, buckets, consumers, pools.

1. *Idempotent.* What is there stays; a setting that differs is changed only where nothing is lost by it
   (`shared/bus/streams.py`), and reported either way.
2. *The number of partitions is never changed.* With another one, executions are looked for in the wrong stream. Some of
   the event streams may be missing only while all of them are empty: then somebody ended the first try half-way.
3. *No consumer for commands that wait.* If the queue has commands of a pool without a consumer, one was deleted, and
   what it knew of leases went with it (`services/scheduler/consumers.py`): the schedulers see to it.
4. *What people said of a pool stays.* A document does not replace one that somebody has taken over.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from shared.bus import api, streams, topology
from shared.bus.jetstream import JetStreamBus
from shared.bus.kv import stream_of
from shared.bus.streams import Drift
from shared.bus.topology import Provision, Topology
from shared.dsl.documents.pools import Pool
from shared.dsl.read.pool_names import is_pool_name, name_fix
from shared.errors import Conflict, Refused
from shared.events import subjects
from shared.runtime.stores import pools, retention

Kind = Literal["stream", "bucket", "consumer", "pool"]
State = Literal["there", "made", "missing", "changed", "differs", "left"]
BY = "noetlctl admin bootstrap"


class Thing(Struct, frozen=True, kw_only=True):
    """`differs`: something about it is not as wanted, and stays so. `left`: others see to it; `note` says who."""

    kind: Kind
    name: str
    state: State
    note: str = ""
    drift: tuple[Drift, ...] = ()


class Wish(Struct, frozen=True, kw_only=True):
    partitions: int
    provision: Provision
    pools: tuple[str, ...]  # those without a document
    documents: Sequence[tuple[Pool, str]] = ()
    retention: tuple[str, ...] = ()


async def look(bus: JetStreamBus, wish: Wish) -> list[Thing]:
    """Changes nothing."""
    wish = await _aged(bus, wish)
    wanted = topology.wanted(_pools(wish), wish.partitions)
    await _check_partitions(bus, wish.partitions)
    await _check_names(bus, wish.pools)
    missing, drifts = await streams.differences(bus, wanted, wish.provision)
    known = {} if stream_of(topology.POOLS) in missing else await pools.everything(bus)
    documents = [_compared(pool, source, known) for pool, source in wish.documents]
    return [*things(wanted, drifts, missing=missing), *documents]


async def _aged(bus: JetStreamBus, wish: Wish) -> Wish:
    """Streams keep what is in them as long as people have said."""
    ages = await retention.ages(bus, wish.retention)
    return replace(wish, provision=replace(wish.provision, max_age_s=ages))


async def make(bus: JetStreamBus, wish: Wish) -> list[Thing]:
    wish = await _aged(bus, wish)
    await _check_partitions(bus, wish.partitions)
    await _check_names(bus, wish.pools)
    base = topology.wanted((), wish.partitions)
    found = await _made(bus, base, wish.provision)
    found += [await _apply(bus, pool, source) for pool, source in wish.documents]
    paused = await pools.consumers(bus, _pools(wish), await bus.time())
    return found + await _consumers(bus, paused, wish.provision)


async def _check_names(bus: JetStreamBus, names: Iterable[str]) -> None:
    """One that was made when its name could still be had stays."""
    for name in names:
        if not is_pool_name(name) and await bus.consumer(topology.COMMANDS, name) is None:
            raise Refused(f"NOETL_POOLS: a pool cannot be called {name!r} ({name_fix(name)})")


async def _made(bus: JetStreamBus, wanted: Topology, provision: Provision) -> list[Thing]:
    missing, _ = await streams.differences(bus, wanted, provision)
    return things(wanted, await streams.ensure(bus, wanted, provision, apply=True), made=missing)


async def _consumers(bus: JetStreamBus, paused: Mapping[str, str], provision: Provision) -> list[Thing]:
    queue = streams.queue_only(topology.wanted(tuple(paused)))
    left = [pool for pool in paused if await _is_lost(bus, pool)]
    rest = tuple(replace(each, paused_until=paused[each.name]) for each in queue.consumers if each.name not in left)
    found = await _made(bus, replace(queue, streams=(), consumers=rest), provision)
    note = "it is gone and commands wait: the schedulers make the queue again"
    return found + [
        Thing(kind="consumer", name=f"{topology.COMMANDS}/{pool}", state="left", note=note) for pool in left]


async def _is_lost(bus: JetStreamBus, pool: str) -> bool:
    if await bus.consumer(topology.COMMANDS, pool) is not None:
        return False
    return await bus.find(topology.COMMANDS, subjects.commands_of(pool)) is not None


def things(
    wanted: Topology, drifts: Sequence[Drift], *, made: Iterable[str] = (), missing: Iterable[str] = ()
) -> list[Thing]:
    """What is wanted, one by one, with what was found of it."""
    names: list[tuple[Kind, str, str]] = [
        *(("stream", each.name, each.name) for each in wanted.streams),
        *(("bucket", each.name, stream_of(each.name)) for each in wanted.buckets),
        *(("consumer", f"{each.stream}/{each.name}", f"{each.stream}/{each.name}") for each in wanted.consumers),
    ]
    made, missing = set(made), set(missing)
    found = []
    for kind, name, at in names:
        own = tuple(drift for drift in drifts if drift.name == at)
        state: State = "made" if at in made else "missing" if at in missing else _state(own)
        found.append(Thing(kind=kind, name=name, state=state, drift=own))
    return found


def _state(drifts: Sequence[Drift]) -> State:
    if not drifts:
        return "there"
    return "changed" if all(drift.applied for drift in drifts) else "differs"


async def _apply(bus: JetStreamBus, pool: Pool, source: str) -> Thing:
    try:
        done, _ = await pools.apply(bus, pool, source, BY, await bus.time())
    except Conflict as error:
        return Thing(kind="pool", name=pool.name, state="left", note=str(error))
    state: State = "made" if done == "created" else "changed" if done == "changed" else "there"
    return Thing(kind="pool", name=pool.name, state=state)


def _compared(pool: Pool, source: str, known: Mapping[str, pools.Entry]) -> Thing:
    entry = known.get(pool.name)
    state: State = "missing" if entry is None else "there" if entry.source == source else "differs"
    return Thing(kind="pool", name=pool.name, state=state)


def _pools(wish: Wish) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*wish.pools, *(pool.name for pool, _ in wish.documents))))


async def _check_partitions(bus: JetStreamBus, partitions: int) -> None:
    """Rule 2. Refused names the setting."""
    wanted = set(map(topology.events_stream, range(partitions)))
    answer = await bus.requests.api(api.STREAM_NAMES, {"subject": f"{subjects.EVENTS}.>"})
    found = set(answer.get("streams") or ())
    if not found:
        return
    if others := sorted(found - wanted):
        raise Refused(f"NOETL_PARTITIONS is {partitions}, and the broker has also {', '.join(others)}: with another "
                      "number, executions are looked for in the wrong stream")
    lost = sorted(wanted - found)
    if lost and any([await bus.last_seq(stream) for stream in sorted(found)]):
        raise Refused(f"NOETL_PARTITIONS is {partitions}, and the broker has {len(found)} event streams with records; "
                      f"not there: {', '.join(lost)}. Set it as it was, or restore a backup if they are lost")
