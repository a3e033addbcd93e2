"""Three NATS servers as a cluster with the users of one keyring. Each has its own copy of the server's part, as it was
when the cluster was made, and its own folder of accounts: what changes later it must be told."""

from pathlib import Path

from msgspec.structs import replace

from shared.bus.jetstream import JetStreamBus
from shared.bus.streams import ensure
from shared.bus.topology import Provision, Topology
from shared.errors import NoetlError
from shared.runtime.broker_auth import folder
from shared.runtime.broker_auth.keyring import Keyring
from shared.runtime.embedded.nats_server import HOST, free_port
from shared.runtime.service.settings import Settings
from tests.support.servers.keyed_nats import KeyedNats, as_user
from tests.support.servers.nats_cluster import NODES, SETTLE_S
from tests.support.waiting import until


class KeyedCluster:
    """`place` is the folder of the keyring. Nodes are known by their number."""

    def __init__(self, place: Path, keys: Keyring) -> None:
        place.mkdir(parents=True, exist_ok=True)
        folder.write(place, keys)
        self.place, ports = place, [free_port() for _ in range(NODES)]
        assert len(set(ports)) == NODES, "drawn twice: try again"
        self.nodes = [self._node(place / f"node{number}", keys, port, ports) for number, port in enumerate(ports)]
        self.url = ",".join(node.url for node in self.nodes)
        self.settings = Settings(nats_url=self.url)

    def _node(self, place: Path, keys: Keyring, port: int, ports: list[int]) -> KeyedNats:
        routes = ", ".join(f"nats-route://{HOST}:{other}" for other in ports if other != port)
        more = f"server_name: {place.name}\ncluster {{ name: noetl, listen: \"{HOST}:{port}\", routes: [{routes}] }}"
        return KeyedNats(place, replace(keys, resolver=str(place / "resolver")), more=more)

    @property
    def keys(self) -> Keyring:
        found = folder.read(self.place / folder.KEYRING)
        assert found is not None
        return found

    def start(self) -> None:
        for node in self.nodes:
            node.start()

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()

    def accounts_at(self, node: int) -> set[str]:
        """The public keys of those that the node has in its folder."""
        return {file.stem for file in (self.nodes[node].place / "resolver").rglob("*.jwt")}

    async def bus(self, user: str, node: int | None = None) -> JetStreamBus:
        """At one node, or at any."""
        return await as_user(self.url if node is None else self.nodes[node].url, self.place, self.keys, user)

    async def ensure(self, bus: JetStreamBus, wanted: Topology) -> None:
        """As soon as there is somebody to ask: every stream on all nodes."""
        async def made() -> bool:
            await ensure(bus, wanted, Provision(NODES))
            return True

        await until(made, "the streams are made", SETTLE_S, despite=(NoetlError,), every_s=0.2)
