"""A whole cluster that restarts loses the queue of commands, and keeps the time of its creation."""

import asyncio
from contextlib import suppress

from services.scheduler.publisher import Publishing, subject_of
from services.scheduler.queue_loss import Loss
from services.scheduler.reissue import Again
from shared.bus import topology
from shared.bus.jetstream import JetStreamBus
from shared.bus.ports import StreamState
from shared.bus.streams import ensure, queue_only
from shared.errors import NoetlError
from shared.events.command import Command
from shared.runtime.service.clock import SystemClock
from tests.support.servers.nats import quick_topology
from tests.support.servers.nats_cluster import NODES, SETTLE_S, NatsCluster
from tests.support.waiting import until

DUE = [Command("x", f"r{n}", "s", "d", "default", n) for n in range(20)]
SOON_S = 15.0  # a few seconds on a machine with nothing else to do; the sweep would take 40


async def queued(bus: JetStreamBus) -> set[str]:
    with suppress(NoetlError):
        return {command.run_id for command in DUE if await bus.find(topology.COMMANDS, subject_of(command))}
    return set()


async def all_queued(bus: JetStreamBus) -> None:
    await until(lambda: queued(bus), "all commands are queued", SOON_S, so=lambda found: len(found) == len(DUE),
                every_s=0.1)


async def answered(bus: JetStreamBus) -> StreamState:
    """What the queue says of itself, as soon as it says anything."""
    return await until(lambda: bus.state(topology.COMMANDS), "the queue answers", SETTLE_S, despite=(NoetlError,))


async def test_a_restart_of_the_whole_cluster_is_noticed_by_the_sequences(cluster: NatsCluster) -> None:
    scheduler, admin = await cluster.connect("scheduler"), await cluster.connect("admin")
    await cluster.ensure(admin)

    async def remake() -> None:
        await ensure(admin, queue_only(quick_topology()), topology.Provision(NODES))

    clock = SystemClock()
    publishing = Publishing(scheduler, clock)
    issued: list[str] = []

    def issue(command: Command, instead: int) -> None:
        issued.append(command.run_id)
        publishing.again(command, instead)

    again = Again(scheduler, issue)
    loss = Loss(scheduler, clock, remake, lambda: DUE, publishing, again, lambda _: None)
    loops = [asyncio.create_task(loss.watch()), asyncio.create_task(publishing.run())]
    try:
        for command in DUE:
            publishing.again(command, 0)
        await all_queued(admin)
        before = await admin.state(topology.COMMANDS)
        for number in range(NODES):
            cluster.kill(number)
        for number in range(NODES):
            cluster.start(number)
        after = await answered(admin)
        assert after.created == before.created
        await all_queued(admin)
        assert {command.run_id for command in DUE} <= set(issued), "they were lost, and issued again"
    finally:
        for task in loops:
            task.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await scheduler.close()
        await admin.close()
