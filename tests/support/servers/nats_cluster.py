"""Three real nats-servers on loopback as one JetStream cluster, with the engine's accounts and users.

    with NatsCluster(tmp_path) as cluster:                 # started, and able to make streams
        bus = await cluster.connect("admin")
        await cluster.ensure(bus)                          # every stream on three nodes, with a leader, current
        leader = await cluster.leader(bus, "NOETL_EVENTS_0")
        cluster.kill(leader); ...; cluster.start(leader)   # or freeze/thaw, restart
"""

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from shared.bus import topology
from shared.bus.jetstream import JetStreamBus, connect
from shared.bus.streams import ensure
from shared.errors import NoetlError
from shared.runtime.broker_auth.server_config import Cluster
from shared.runtime.embedded.nats_server import HOST, NatsServer, free_port
from tests.support.servers.nats import POOLS, quick_topology

NODES = 3
SETTLE_S = 60.0
POLL_S = 0.1


class NatsCluster:
    """Nodes are known by their number, 0 to 2. `frozen` ones are stopped by SIGSTOP: they are silent, not gone."""

    def __init__(
        self, folder: Path, *, pools: Sequence[str] = POOLS, partitions: int = topology.PARTITIONS,
        sync_always: bool = False,
    ) -> None:  # fmt: skip
        self._ports = [free_port() for _ in range(NODES)]
        assert len(set(self._ports)) == NODES, "drawn twice: try again"
        self.partitions = partitions
        self.frozen: set[int] = set()
        self.nodes: list[NatsServer] = []
        for number in range(NODES):
            place = folder / f"node{number}"
            if self.nodes:  # one set of passwords for all
                place.mkdir(parents=True, exist_ok=True)
                (place / "passwords.json").write_bytes(msgspec.json.encode(self.nodes[0].passwords))
            others = tuple(f"{HOST}:{port}" for port in self._ports if port != self._ports[number])
            cluster = Cluster("noetl", self._ports[number], others)
            self.nodes.append(
                NatsServer(place, pools=pools, partitions=partitions, sync_always=sync_always, cluster=cluster)
            )

    @property
    def passwords(self) -> dict[str, str]:
        return self.nodes[0].passwords

    def url(self, user: str, node: int = 0) -> str:
        return self.nodes[node].url_for(user)

    async def connect(self, user: str, node: int = 0) -> JetStreamBus:
        """The server tells a client of the others, so it goes on when the node is killed."""
        return await connect(self.url(user, node))

    # The life of the nodes

    def __enter__(self) -> "NatsCluster":
        try:
            for node in self.nodes:
                node.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for number, node in enumerate(self.nodes):
            if node.running:
                self.thaw(number)
                node.kill()

    def start(self, number: int) -> None:
        self.nodes[number].start()

    def kill(self, number: int) -> None:
        """As a crash would (kill -9)."""
        self.thaw(number)
        self.nodes[number].kill()

    def restart(self, number: int) -> None:
        self.kill(number)
        self.start(number)

    def freeze(self, number: int) -> None:
        os.kill(self.nodes[number].pid, signal.SIGSTOP)
        self.frozen.add(number)

    def thaw(self, number: int) -> None:
        if number in self.frozen:
            self.frozen.discard(number)
            with suppress(ProcessLookupError):
                os.kill(self.nodes[number].pid, signal.SIGCONT)

    # What the cluster says of itself

    async def ensure(self, bus: JetStreamBus, wanted: topology.Topology | None = None) -> None:
        """Makes every stream, consumer and bucket with three replicas and waits until each has a leader and is
        current. Right after the start there is no one to ask, so it is asked again."""
        deadline = time.monotonic() + SETTLE_S
        while True:
            try:
                await ensure(bus, wanted or quick_topology(), topology.Provision(NODES))
                break
            except NoetlError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(POLL_S)
        await self.settled(bus)

    async def settled(self, bus: JetStreamBus) -> None:
        """Waits until every stream has a leader, and every node that runs a current copy of it."""
        deadline = time.monotonic() + SETTLE_S
        wrong: object = "nobody answered"
        while time.monotonic() < deadline:
            with suppress(NoetlError):
                streams = await self._streams(bus)
                wrong = [name for name, found in streams.items() if not self._is_current(found)]
                if streams and not wrong:
                    return
            await asyncio.sleep(POLL_S)
        raise TimeoutError(f"not settled after {SETTLE_S} s: {wrong}")

    async def leader(self, bus: JetStreamBus, stream: str, after: int = -1) -> int:
        """`after` is the node that led before: what is said of it about the time of its fall is not believed."""
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline:
            with suppress(NoetlError):
                name = (await bus.requests.api(f"STREAM.INFO.{stream}"))["cluster"].get("leader", "")
                for number, node in enumerate(self.nodes):
                    if node.name == name and number != after:
                        return number
            await asyncio.sleep(POLL_S)
        raise TimeoutError(f"{stream} has no leader after {SETTLE_S} s")

    async def _streams(self, bus: JetStreamBus) -> dict[str, dict[str, Any]]:
        listed = (await bus.requests.api("STREAM.NAMES"))["streams"] or []
        return {name: await bus.requests.api(f"STREAM.INFO.{name}") for name in listed}

    def _is_current(self, found: dict[str, Any]) -> bool:
        cluster = found["cluster"]
        up = {node.name for number, node in enumerate(self.nodes) if node.running and number not in self.frozen}
        copies = [copy for copy in cluster.get("replicas") or [] if copy["name"] in up]
        wanted = min(found["config"]["num_replicas"], len(up)) - 1
        return bool(cluster.get("leader")) and len(copies) >= wanted and all(copy["current"] for copy in copies)
