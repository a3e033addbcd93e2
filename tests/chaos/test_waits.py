"""Kill -9 while executions wait for children and for time: each wait ends once, each child runs once."""

from collections import Counter

import msgspec
import pytest

from shared.bus.jetstream import JetStreamBus
from shared.events import model as ev
from shared.events import subjects
from shared.events.request import Control
from tests.chaos.driving.log import Log, check, start
from tests.chaos.driving.projection import check_projection
from tests.chaos.driving.support import Cluster
from tests.chaos.test_kill import kill, start_again
from tests.support.suite.long import long

PARENTS, CHILDREN = 40, 4
TIMERS = 300
RESULT = {"all": [{"n": n, "twice": 2 * n} for n in (1, 2, 3)], "last": {"n": 3, "twice": 6}}


def resumed(log: Log) -> int:
    return sum(isinstance(event, ev.TaskResumed) for key in log.histories for _, event in log.events(key))


@pytest.mark.parametrize("victim", [long("router"), long("scheduler"), "worker", "nats"])
async def test_parents_hear_from_every_child_although_a_process_is_killed(
    cluster: Cluster, bus: JetStreamBus, victim: str
) -> None:
    log = await Log.open(bus)
    parents = [f"parent-{victim}-{i}" for i in range(PARENTS)]
    await start(bus, "chaos/parent", {key: {} for key in parents})
    await log.until(lambda log: resumed(log) > PARENTS, "some waits are over")
    await kill(cluster, victim)
    await start_again(cluster, bus, victim)
    await log.until_over(parents)
    children = [key for key in log.histories if key not in parents]
    assert len(children) == PARENTS * CHILDREN
    await log.until_over(children)
    await check(log, [*parents, *children])
    for key in parents:
        (end,) = [event for _, event in log.events(key) if isinstance(event, ev.PlaybookProcessed)]
        assert end.result is not None
        assert end.result.value == RESULT
        waits = Counter((e.run_id, e.index, e.wait) for _, e in log.events(key) if isinstance(e, ev.TaskResumed))
        assert set(waits.values()) == {1}
    await check_projection(cluster.dsn, log)


async def test_timers_survive_a_restart_of_the_broker_and_of_the_scheduler(
    cluster: Cluster, bus: JetStreamBus
) -> None:
    log = await Log.open(bus)
    sleepers = [f"timer-{i}" for i in range(TIMERS)]
    await start(bus, "chaos/sleeper", {key: {} for key in sleepers})
    waiting = ev.TaskWaiting
    await log.until(
        lambda log: sum(isinstance(e, waiting) for key in sleepers for _, e in log.events(key)) == TIMERS, "all wait"
    )
    await kill(cluster, "nats-scheduler")
    await start_again(cluster, bus, "nats-scheduler")
    await log.until_over(sleepers)
    await check(log, sleepers)
    assert all(sum(isinstance(e, ev.TaskResumed) for _, e in log.events(key)) == 1 for key in sleepers)


async def test_a_cancel_is_carried_out_although_the_router_is_killed(cluster: Cluster, bus: JetStreamBus) -> None:
    log = await Log.open(bus)
    keys = [f"cancel-{i}" for i in range(20)]
    await start(bus, "chaos/sleeper", {key: {"nap": "10m"} for key in keys})
    await log.until(lambda log: log.histories.keys() >= set(keys), "all have begun")
    await cluster.kill("router-g")
    for key in keys:
        await bus.append(subjects.CANCEL, msgspec.json.encode(Control(key, "enough")))
    await cluster.start_again("router-g")
    await log.until_over(keys)
    assert {key: log.ends[key] for key in keys} == {key: ["cancelled"] for key in keys}
