"""Kill -9 at random through parallel loops: each iteration ends once, the loop after them, no call is made twice
that was not cut off. `tests/chaos/soak.py` is the long form."""

from shared.bus.jetstream import JetStreamBus
from tests.chaos.driving import ledger
from tests.chaos.driving.killing import kill_at_random
from tests.chaos.driving.log import Log, check, start
from tests.chaos.driving.projection import check_projection
from tests.chaos.driving.support import TWO, Cluster

SIZES = TWO
LOOPS, ITERATIONS, KILLS, SEED = 2, 200, 4, 15


async def test_loops_end_once_and_after_their_iterations_whoever_is_killed(cluster: Cluster, bus: JetStreamBus) -> None:
    await ledger.prepare(bus, cluster.dsn)
    log = await Log.open(bus)
    loops = ledger.payloads("loop", LOOPS, ITERATIONS)
    await start(bus, "chaos/loop", loops)
    total = LOOPS * ITERATIONS
    kills = await kill_at_random(cluster, log, SEED, KILLS, total, lambda: log.iterations_done)
    assert {kill.kind for kill in kills} == {"worker", "scheduler", "router"}
    await log.until_over(list(loops))
    await check(log, list(loops))
    figures = await ledger.check_calls(cluster.dsn, log, list(loops), ITERATIONS, kills)
    assert figures.in_flight > 0, "no worker was killed with anything in its hands"
    await check_projection(cluster.dsn, log)
