"""What must be true of workers that lose their runs, and of commands that nobody failed to do."""

from itertools import pairwise

from shared.bus import topology
from shared.events import subjects
from shared.events.record import Epoch, Record
from shared.events.run_index import RUN, index_of
from tests.sim.leases import WELL_S
from tests.sim.tools import Entry
from tests.sim.world import PARTITIONS, World

KNOW_S = 4.0  # in which a worker that can hear and look knows that another has its run

Histories = dict[str, list[tuple[int, Record]]]


def check(world: World, histories: Histories) -> list[str]:
    return _check_superseded(world, histories) + _check_lost(world)


def _check_superseded(world: World, histories: Histories) -> list[str]:
    """A tool is not called under a lease that another one has followed, once its worker can know."""
    claims = _claims(world, histories)
    found = []
    for entry in world.ledger:
        execution_id, run, *_ = entry.key.split("/")
        run_id, _, part = run.partition(".")
        later = [
            at
            for index in {index_of(part), RUN}
            for epoch, at in claims.get((execution_id, run_id, index), {}).items()
            if epoch > entry.epoch
        ]
        if later and entry.at - min(later) > KNOW_S and _could_know(world, entry, min(later)):
            late = entry.at - min(later)
            found.append(f"call: {entry.key} by {entry.worker} under {entry.epoch}, {late:.1f} s after a later lease")
    return found


def _check_lost(world: World) -> list[str]:
    """The lease of a worker that is there does not end: it is extended at the claim, however late that comes."""
    lost = world.network.leases.lost
    return [
        each.text for each in lost
        if not any(begun < each.at and each.at - WELL_S < ended for begun, ended in world.outages)
    ]


def _claims(world: World, histories: Histories) -> dict[tuple[str, str, int], dict[Epoch, float]]:
    """When each lease of a run spoke first."""
    found: dict[tuple[str, str, int], dict[Epoch, float]] = {}
    for execution_id, records in histories.items():
        stream = world.broker.streams[topology.events_stream(subjects.partition_of(execution_id, PARTITIONS))]
        for seq, record in records:
            if record.lease is not None:
                key = execution_id, record.lease.run_id, record.lease.index
                at = world.network.stored_at[stream.stored[seq].message.subject, seq]
                found.setdefault(key, {}).setdefault(record.lease.epoch, at)
    return found


def _could_know(world: World, entry: Entry, since: float) -> bool:
    """For so long nothing kept it from hearing and looking."""
    away = [*world.network.clients[entry.worker].away, *world.outages]
    moments = sorted([since, entry.at, *(each for span in away for each in span if since < each < entry.at)])
    free = [
        until - start
        for start, until in pairwise(moments)
        if not any(begun < until and start < ended for begun, ended in away)
    ]
    return max(free, default=0.0) > KNOW_S
