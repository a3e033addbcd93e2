"""The system of a storm on three nodes: every stream is on all of them, and one at a time is killed or stopped."""

import asyncio
from urllib.parse import quote

import msgspec

from shared.bus import topology
from shared.bus.jetstream import JetStreamBus, connect
from shared.runtime.embedded.nats_server import NatsServer
from tests.chaos.driving.support import POOL
from tests.chaos.storm.system import System
from tests.support.servers.nats_cluster import NODES, NatsCluster
from tests.support.servers.proxy import HOST, Proxy


class ClusterSystem(System):
    async def _start_broker(self) -> None:
        self.cluster = NatsCluster(self.folder / "nats", pools=(POOL,))
        for node in self.cluster.nodes:
            _tell_nobody(node)
        self._exit.enter_context(self.cluster)
        self.nats = self.cluster.nodes[0]
        self._own = await Proxy(*self.brokers()).start()
        self.proxies["admin"] = self._own

    async def _make_streams(self, bus: JetStreamBus) -> None:
        await self.cluster.ensure(bus, topology.wanted((POOL,)))

    def brokers(self) -> list[int]:
        return [node.port for node in self.cluster.nodes]

    def _environ(self, name: str, url: str) -> dict[str, str]:
        return {**super()._environ(name, url), "NOETL_REPLICAS": str(NODES)}

    @property
    def admin_url(self) -> str:
        return self._own.url

    async def connect(self) -> JetStreamBus:
        """Over a proxy of its own, which finds a node that runs."""
        password = quote(self.nats.passwords["admin"])
        return await connect(f"nats://admin:{password}@{HOST}:{self._own.port}")

    async def broker_up(self) -> None:
        for number, node in enumerate(self.cluster.nodes):
            self.cluster.thaw(number)
            if not node.running:
                await asyncio.to_thread(self.cluster.start, number)

    async def kill_leader(self, bus: JetStreamBus, partition: int, lasts: float) -> None:
        number = await self.cluster.leader(bus, topology.events_stream(partition))
        self.cluster.kill(number)
        await asyncio.sleep(lasts)
        await asyncio.to_thread(self.cluster.start, number)

    async def stop_node(self, number: int, lasts: float) -> None:
        self.cluster.freeze(number)
        await asyncio.sleep(lasts)
        self.cluster.thaw(number)

    async def settled(self, bus: JetStreamBus) -> None:
        """A node that was away has caught up: the loss of the next one leaves two."""
        await self.cluster.settled(bus)


def _tell_nobody(node: NatsServer) -> None:
    """A client that knew the other nodes would go to them past its proxy."""
    file = node.folder / "nats.conf"
    config = msgspec.json.decode(file.read_bytes())
    config["cluster"]["no_advertise"] = True
    file.write_bytes(msgspec.json.encode(config))
