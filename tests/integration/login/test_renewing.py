"""Files are renewed while everything runs: the next connection has the new ones, and nothing is lost."""

from pathlib import Path

import pytest

from shared.bus import topology
from shared.bus.jetstream import JetStreamBus, connect
from shared.bus.login.files import LoginFiles
from shared.bus.streams import ensure
from shared.errors import Unavailable
from tests.integration.login.conftest import Party
from tests.support.servers.certificates import Issuer
from tests.support.servers.configured_nats import ConfiguredNats
from tests.support.servers.operator_nats import Operator, new_key
from tests.support.waiting import until

WITHIN_S = 20.0


async def written(bus: JetStreamBus, key: str) -> None:
    await until(lambda: bus.kv_put(topology.LIMITS, key, b"x"), f"{key} is stored", WITHIN_S, despite=(Unavailable,))


async def test_credentials_that_expire_are_read_again(tmp_path: Path) -> None:
    operator, file = Operator(), tmp_path / "user.creds"
    operator.write_creds(file, "first", seconds=2)
    with ConfiguredNats(tmp_path / "server", operator.config) as server:
        bus = await connect(server.url, files=LoginFiles(creds=str(file)))
        await ensure(bus, topology.wanted())
        before = bus.connections
        operator.write_creds(file, "second")
        await until(lambda: _other(bus, before), "the server ends what has expired", WITHIN_S)
        await written(bus, "after")
        await bus.close()


async def _other(bus: JetStreamBus, before: int) -> bool:
    return bus.connections > before + 1 and bus.connection.is_connected


async def test_a_key_that_is_replaced_is_read_again(tmp_path: Path) -> None:
    file, old, new = tmp_path / "seed", new_key(), new_key()
    file.write_text(old.seed)
    with ConfiguredNats(tmp_path / "server", {"authorization": {"users": [{"nkey": old.public}]}}) as server:
        bus = await connect(server.url, files=LoginFiles(nkey=str(file)))
        await ensure(bus, topology.wanted())
        server.configure({"authorization": {"users": [{"nkey": new.public}]}})
        server.reload()  # whom it no longer knows it sends away
        with pytest.raises(AssertionError):
            await until(lambda: bus.kv_put(topology.LIMITS, "old", b"x"), "the old key", 1.0, despite=(Unavailable,))
        file.write_text("half a fi")  # as it is while somebody writes it
        file.write_text(new.seed)
        await written(bus, "new")
        await bus.close()


async def test_certificates_of_another_issuer_are_read_again(tmp_path: Path) -> None:
    place = tmp_path / "certificates"
    party = Party(Issuer(place))
    with ConfiguredNats(tmp_path / "server", {"tls": {**party.tls, "verify": True}}) as server:
        bus = await connect(f"tls://{server.address}", files=party.known)
        await ensure(bus, topology.wanted())
        Party(Issuer(place))  # the same files, another issuer
        server.restart()
        await written(bus, "after")
        await bus.close()
