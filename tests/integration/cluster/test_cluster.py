"""The engine's streams, consumers and buckets on three nodes."""

from shared.bus.topology import COMMANDS, events_stream
from tests.support.servers.nats_cluster import NODES, NatsCluster


async def test_everything_is_made_with_three_replicas_and_outlives_the_leader(cluster: NatsCluster) -> None:
    bus = await cluster.connect("admin")
    try:
        await cluster.ensure(bus)
        for name in (await bus.requests.api("STREAM.NAMES"))["streams"]:
            assert (await bus.requests.api(f"STREAM.INFO.{name}"))["config"]["num_replicas"] == NODES, name
        queue = await bus.requests.api(f"CONSUMER.INFO.{COMMANDS}.default")
        assert len(queue["cluster"]["replicas"]) == NODES - 1
        seq = await bus.append("noetl.events.0.e1.router", b"a", expected=0)
        leader = await cluster.leader(bus, events_stream(0))
        cluster.kill(leader)
        assert await cluster.leader(bus, events_stream(0)) != leader
        cluster.start(leader)
        await cluster.settled(bus)
        assert [m.seq for m in await bus.read(events_stream(0), ["noetl.events.0.e1.router"])] == [seq]
    finally:
        await bus.close()
