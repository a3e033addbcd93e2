"""A schedule whose schedulers are killed one after the other: each second is one execution, none is lost."""

import time

from shared.bus.jetstream import JetStreamBus
from shared.bus.membership import owner_of
from shared.bus.topology import PARTITIONS
from shared.dsl.documents.compile import compile_document
from shared.engine.automation.schedules import execution_id
from shared.events.subjects import partition_of
from shared.runtime.stores import schedules as store_schedules
from tests.chaos.driving.log import Log, check
from tests.chaos.driving.support import TWO, Cluster

SIZES = TWO
SOURCE = """\
apiVersion: noetl.io/v2
kind: Schedule
metadata: {name: every-second}
spec: {playbook: {path: chaos/chain}, every: 1s, catch_up: all}
"""


async def test_every_second_is_one_execution_whoever_is_killed(cluster: Cluster, bus: JetStreamBus) -> None:
    log, names = await Log.open(bus), [process.name for process in cluster.of("scheduler")]
    document = compile_document(SOURCE, kind="Schedule").document
    assert document is not None
    began = int(time.time())
    await store_schedules.apply(bus, document, SOURCE, began)
    owner = owner_of(partition_of("every-second", PARTITIONS), names)
    await log.until_over([execution_id("every-second", began + 2)])
    await cluster.kill(owner)
    (other,) = set(names) - {owner}
    after = int(time.time()) + 1
    await log.until_over([execution_id("every-second", after)])
    await cluster.kill(other)  # nobody is there any more
    await cluster.restart(owner)
    last = int(time.time()) + 1
    await log.until_over([execution_id("every-second", last)])
    await store_schedules.pause(bus, "every-second", True, int(time.time()))
    asked = [execution_id("every-second", at) for at in range(began + 1, last + 1)]
    await log.until_over(asked)
    await check(log, asked)
