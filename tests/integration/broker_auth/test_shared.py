"""One user for everybody: each role does its work, and nothing is kept from anybody."""

from pathlib import Path

from shared.bus import topology
from shared.bus.jetstream import JetStreamBus, connect
from shared.bus.login.files import LoginFiles
from shared.bus.permissions import SHARED_USER
from shared.bus.streams import ensure
from shared.events.subjects import inbox_prefix
from shared.runtime.broker_auth.kept_accounts import KeptAccounts
from shared.runtime.service.clock import SystemClock
from tests.support.servers.keyed_nats import KeyedNats, keyring, running


async def test_every_role_works_with_the_one_key(tmp_path: Path) -> None:
    with running(KeyedNats(tmp_path, keyring("shared", tmp_path))) as server:
        files = LoginFiles(nkey=str(tmp_path / f"{SHARED_USER}.nk"))

        async def as_role(role: str) -> JetStreamBus:
            return await connect(server.url, inbox_prefix=inbox_prefix(role), files=files)

        buses = [await as_role(role) for role in ("admin", "router", "worker_default", "projector")]
        admin, router, worker, projector = buses
        await ensure(admin, topology.wanted())
        await router.append("noetl.events.0.x.router", b"decided")
        await admin.append("noetl.commands.default.x.r1", b"command")
        (delivery,) = await (await worker.consume(topology.COMMANDS, "default", 1)).batch(1)
        await delivery.ack()
        assert len(await projector.read(topology.events_stream(0), ["noetl.events.0.>"])) == 1
        assert await worker.time() > 0
        await worker.append("noetl.events.0.x.router", b"forged")  # this is what it is warned of
        for bus in buses:
            await bus.close()


async def test_a_new_pool_needs_nothing(tmp_path: Path) -> None:
    keys = keyring("shared", tmp_path)
    server = KeyedNats(tmp_path, keys)  # it does not even run
    await KeptAccounts(tmp_path, server.settings, SystemClock()).settle(("default", "etl"), ["etl"])
    assert (server.keys.pools, server.keys.seeds) == (("default", "etl"), keys.seeds)
