"""On three nodes: what is made has three copies, and again when it is made again."""

import pytest

from services.cli.admin import bootstrap
from services.scheduler.consumers import Consumers
from shared.bus import pool_consumer
from shared.bus.codes import broker_setting
from shared.bus.jetstream import JetStreamBus
from shared.bus.topology import COMMANDS, Provision
from shared.errors import NoetlError, Unavailable
from shared.runtime.service.clock import SystemClock
from tests.support.servers.nats_cluster import NODES, NatsCluster
from tests.support.waiting import until

COPIES = Provision(NODES)


async def copies(bus: JetStreamBus) -> dict[str, int]:
    names = (await bus.requests.api("STREAM.NAMES"))["streams"]
    return {name: (await bus.requests.api(f"STREAM.INFO.{name}"))["config"]["num_replicas"] for name in names}


async def made_again(bus: JetStreamBus, provision: Provision) -> int:
    await Consumers(bus, SystemClock(), ("default",), provision).make()
    return (await copies(bus))[COMMANDS]


async def test_every_stream_has_its_copies_and_the_queue_has_them_again(cluster: NatsCluster) -> None:
    bus = await cluster.connect("admin")
    wish = bootstrap.Wish(partitions=cluster.partitions, provision=COPIES, pools=("default",))
    try:
        await until(lambda: bootstrap.make(bus, wish), "all is made", 60, despite=(Unavailable,))
        assert set((await copies(bus)).values()) == {NODES}
        await pool_consumer.discard(bus)
        with pytest.raises(NoetlError) as refused:
            await made_again(bus, Provision(NODES, ("zone:nowhere",)))
        assert "NOETL_PLACEMENT" in broker_setting(str(refused.value))
        assert await until(lambda: made_again(bus, COPIES), "the queue", 60, despite=(Unavailable,)) == NODES
    finally:
        await bus.close()
