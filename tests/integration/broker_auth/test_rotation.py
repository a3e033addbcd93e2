"""Another key for a user while everybody is at work: the old one stops, the new one works, nobody else is cut off."""

import os
from pathlib import Path

import pytest

from shared.bus import topology
from shared.bus.permissions import SYSTEM_USER
from shared.bus.streams import ensure
from shared.runtime.broker_auth import documents, folder, operator, system
from shared.runtime.broker_auth.kept_accounts import KeptAccounts, as_user
from shared.runtime.broker_auth.keyring import rotated, user_key, with_pools
from shared.runtime.service.clock import SystemClock
from tests.integration.broker_auth.lines import Line, without
from tests.support.servers.keyed_nats import CLOSED, NOW, KeyedNats, Login, accounts_of, keyring, running
from tests.support.waiting import until

SOON_S = 20.0
MODES = ("accounts", "jwt")


@pytest.mark.parametrize("user", ["worker_default", "router", SYSTEM_USER])
@pytest.mark.parametrize("mode", MODES)
async def test_the_old_key_stops_and_the_new_one_works(mode: str, user: str, tmp_path: Path) -> None:
    with running(KeyedNats(tmp_path, keyring(mode, tmp_path))) as server:
        before = server.keys
        admin, bus, other = await server.bus("admin"), await server.bus(user), await server.bus("worker_gpu")
        await ensure(admin, topology.wanted(("default", "gpu")))
        with_old_key = server.client(user, before)
        kept = KeptAccounts(tmp_path, server.settings, SystemClock())
        after = await kept.change(lambda keys: rotated(keys, user, NOW))
        assert after.seed(user_key(user)) != before.seed(user_key(user))
        await until(with_old_key.flush, "the old key's connection is closed", SOON_S, so=lambda said: CLOSED in said)
        with pytest.raises(Login, match="Authorization Violation"):
            server.client(user, before)
        server.client(user)
        await until(lambda: bus.connection.is_connected and bus.connections > 1, "it comes back by its file", SOON_S)
        if user != SYSTEM_USER:
            await bus.time()
        assert (admin.connections, other.connections) == (1, 1), "someone else was cut off"
        for each in (admin, bus, other):
            await each.close()


@pytest.mark.parametrize("mode", MODES)
async def test_a_pool_that_is_gone_cannot_be_used_and_comes_back_with_another_key(mode: str, tmp_path: Path) -> None:
    with running(KeyedNats(tmp_path, keyring(mode, tmp_path))) as server:
        before, kept = server.keys, KeptAccounts(tmp_path, server.settings, SystemClock())
        gone, other = server.client("worker_gpu"), await server.bus("worker_default")
        await kept.settle(("default",), [])
        await until(gone.flush, "its connection is closed", SOON_S, so=lambda said: CLOSED in said)
        with pytest.raises(Login):
            server.client("worker_gpu", before)
        assert not any(file.startswith("worker_gpu") for file in os.listdir(tmp_path))
        await kept.settle(("default", "gpu"), ["gpu"])
        with pytest.raises(Login):
            server.client("worker_gpu", before)
        server.client("worker_gpu")
        assert other.connections == 1
        await other.close()


async def test_other_rules_hold_at_once_for_whoever_is_connected(tmp_path: Path) -> None:
    """By a push of the account alone. The role's own connections are closed once; its file stays good."""
    with running(KeyedNats(tmp_path, keyring("jwt", tmp_path))) as server:
        keys, accounts = server.keys, accounts_of(server.keys)
        line = Line("NOETL", "router", "publish", "noetl.events.*.*.control")
        router, other = server.client("router"), server.client("scheduler")
        assert router.publish("noetl.events.0.x.control") == ""
        keeper = await system.connected(as_user(server.settings, tmp_path, keys, SYSTEM_USER))
        await keeper.push(operator.signed(keys, without(accounts, line), NOW + 1).tokens["account/NOETL"])
        await keeper.close()
        await until(router.flush, "it is closed", SOON_S, so=lambda said: CLOSED in said)
        again = server.client("router")
        assert "Permissions Violation" in again.publish("noetl.events.0.x.control")
        assert again.publish("noetl.events.0.x.router") == other.publish("noetl.events.0.x.control") == ""


async def test_what_was_not_told_is_told_later(tmp_path: Path) -> None:
    """A keyring that was written, and whose writer died before the broker knew."""
    with running(KeyedNats(tmp_path, keyring("jwt", tmp_path))) as server:
        wanted = ("default", "gpu", "etl")
        folder.write(tmp_path, documents.ready(with_pools(server.keys, wanted), NOW))
        with pytest.raises(Login):
            server.client("worker_etl")
        await KeptAccounts(tmp_path, server.settings, SystemClock()).settle(wanted, ["etl"])
        server.client("worker_etl")
