"""The services on three brokers: every stream on all of them, the queue in memory too. Each service knows all three, as
in production, and goes to another when its own is gone; nothing stands in between."""

import asyncio
from pathlib import Path
from typing import Self
from urllib.parse import quote

from shared.bus import topology
from shared.bus.jetstream import JetStreamBus, connect
from shared.runtime.embedded.nats_server import HOST
from tests.chaos.driving.support import POOL, TWO, Cluster
from tests.support.servers.nats_cluster import NODES, NatsCluster

BOOKS = Path(__file__).parent / "books"


class ThreeBrokers(Cluster):
    """Under the product's leases. Nobody starts a service again: none may end."""

    playbooks = BOOKS

    def __init__(self) -> None:
        super().__init__(TWO)

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    async def _start_broker(self) -> None:
        self.brokers = NatsCluster(self.folder / "nats", pools=(POOL,))
        self._exit.enter_context(self.brokers)
        self.nats = self.brokers.nodes[0]

    async def _make_streams(self, bus: JetStreamBus) -> None:
        await self.brokers.ensure(bus, topology.wanted((POOL,)))

    async def _url(self, name: str) -> str:
        return ",".join(node.url for node in self.brokers.nodes)

    def _environ(self, name: str, url: str) -> dict[str, str]:
        return {**super()._environ(name, url), "NOETL_REPLICAS": str(NODES)}

    async def connect(self) -> JetStreamBus:
        password = quote(self.nats.passwords["admin"])
        return await connect(",".join(f"nats://admin:{password}@{HOST}:{node.port}" for node in self.brokers.nodes))

    def ended(self) -> list[str]:
        """Services that are not there any more, with their last words."""
        gone = [process for process in self.processes.values() if not process.running]
        return [f"{process.name} ended:\n{process.tail()}" for process in gone]
