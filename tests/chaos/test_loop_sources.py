"""Kill -9 of the worker that runs a local loop, or claims the rows of one: the next one goes on with what had not
ended, and no row is lost."""

import asyncpg

from shared.answers.verify.reports import history_of
from shared.bus.jetstream import JetStreamBus
from shared.events import model as ev
from shared.events.record import Lease
from shared.events.run_index import RUN, frame_of
from tests.chaos.driving import ledger
from tests.chaos.driving.log import Log, check, start
from tests.chaos.driving.projection import check_projection
from tests.chaos.driving.support import TWO, Cluster

SIZES = {**TWO, "router": 1, "scheduler": 1}
ITERATIONS, IN_FLIGHT, ROWS = 60, 4, 80


def _leases(log: Log, execution: str) -> list[tuple[Lease, ev.Event]]:
    return [(record.lease, event) for record, event in log.events(execution) if record.lease is not None]


async def test_whoever_takes_a_local_loop_over_goes_on_with_what_had_not_ended(
    cluster: Cluster, bus: JetStreamBus
) -> None:
    await ledger.prepare(bus, cluster.dsn)
    log, name = await Log.open(bus), "local-kill"
    await start(bus, "chaos/local", {name: {"iterations": ITERATIONS, "in_flight": IN_FLIGHT, "nap_s": 0.1}})
    await log.until(lambda log: log.iterations_done >= 12, "some iterations done")
    first = next(lease for lease, _ in _leases(log, name) if lease.index == RUN)
    victim = first.worker
    await cluster.kill(victim)
    await log.poll()
    before = {lease.index for lease, event in _leases(log, name) if isinstance(event, ev.IterationDone)}
    assert 12 <= len(before) < ITERATIONS
    await cluster.start_again(victim)
    await log.until_over([name])
    await check(log, [name])
    held = history_of(name, log.histories[name]).held
    again = {key.index for key, hold in held.items() if key.index >= 0 and hold.epoch > first.epoch}
    assert again == set(range(ITERATIONS)) - before
    calls = await ledger.calls(cluster.dsn, name)
    assert set(calls) == set(range(ITERATIONS))
    assert sum(calls.values()) <= ITERATIONS + IN_FLIGHT
    assert all(calls[index] == 1 for index in before)
    await check_projection(cluster.dsn, log)


async def test_no_row_is_lost_when_the_worker_that_claims_them_is_killed(cluster: Cluster, bus: JetStreamBus) -> None:
    await ledger.prepare(bus, cluster.dsn)
    connection = await asyncpg.connect(cluster.dsn)
    await connection.execute("CREATE TABLE jobs (id int PRIMARY KEY, claimed text)")
    await connection.execute(f"INSERT INTO jobs SELECT generate_series(1, {ROWS})")
    log, name = await Log.open(bus), "cursor-kill"
    await start(bus, "chaos/cursor", {name: {"frame_nap_s": 1.5}})

    def claiming(log: Log) -> list[Lease]:
        """Claims under way, from the second frame on."""
        found = {lease.index: (lease, event) for lease, event in _leases(log, name) if frame_of(lease.index) >= 1}
        return [lease for lease, event in found.values() if isinstance(event, ev.StepStarted)]

    await log.until(lambda log: bool(claiming(log)), "a claim under way")
    lease = claiming(log)[0]
    await cluster.kill(lease.worker)
    await log.poll()
    assert claiming(log) == [lease], "the claim was over already"
    await cluster.start_again(lease.worker)
    await log.until_over([name])
    await check(log, [name])
    claims = history_of(name, log.histories[name]).held
    frames = {frame_of(key.index): held for key, held in claims.items() if frame_of(key.index) >= 0}
    assert frames[frame_of(lease.index)].epoch > lease.epoch
    assert await connection.fetchval("SELECT count(*) FROM jobs WHERE claimed IS NULL") == 0
    assert set(await ledger.calls(cluster.dsn, name)) == set(range(1, ROWS + 1))
    await connection.close()
    await check_projection(cluster.dsn, log)
