"""Whom a broker does not let in, and what it does not take: signatures that are wrong, accounts that are over or that
somebody else has signed."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from shared.bus.permissions import SYSTEM_USER, pool_account
from shared.errors import Refused
from shared.runtime.broker_auth import documents, system
from shared.runtime.broker_auth.kept_accounts import as_user
from shared.runtime.broker_auth.keyring import OPERATOR, Keyring, account_key, new_seed, role_key, user_key
from shared.runtime.broker_auth.tokens import claims_of, signed
from tests.support.servers.keyed_nats import KeyedNats, Login, keyring, running
from tests.support.waiting import until

SOON_S = 20.0
USER, ACCOUNT = "worker_default", pool_account("default")


@pytest.fixture
def keys(tmp_path: Path) -> Keyring:
    return keyring("jwt", tmp_path)


@asynccontextmanager
async def keeping(server: KeyedNats) -> AsyncIterator[system.System]:
    keeper = await system.connected(as_user(server.settings, server.place, server.keys, SYSTEM_USER))
    try:
        yield keeper
    finally:
        await keeper.close()


def flipped(token: str) -> str:
    """With another signature of the same length."""
    text, _, signature = token.rpartition(".")
    return f"{text}.{'B' if signature[0] == 'A' else 'A'}{signature[1:]}"


def changed(token: str, seed: str, **claims: object) -> str:
    """What it says, and more, signed by this seed, a moment later."""
    said = {name: value for name, value in claims_of(token).items() if name not in ("iss", "jti")}
    return signed({**said, "iat": said["iat"] + 1, **claims}, seed)


def test_a_user_whose_token_is_not_its_accounts_is_refused(tmp_path: Path, keys: Keyring) -> None:
    token, seed = keys.tokens[user_key(USER)], keys.seed(user_key(USER))
    other = new_seed("account")
    wrong = {
        "a flipped signature": (seed, flipped(token)),
        "the signature of another": (seed, changed(token, other)),
        "that of another role": (seed, changed(token, keys.seed(role_key("router")))),
        "one that has expired": (seed, changed(token, keys.seed(role_key(USER)), exp=int(time.time()) - 1)),
        "a key of another": (new_seed("user"), token),
    }
    with running(KeyedNats(tmp_path, keys)) as server:
        server.bare(seed, token)
        let_in = []
        for name, (proof, shown) in wrong.items():
            try:
                server.bare(proof, shown)
                let_in.append(name)
            except Login:
                pass
        assert let_in == []


async def test_an_account_with_a_wrong_signature_is_not_taken(tmp_path: Path, keys: Keyring) -> None:
    with running(KeyedNats(tmp_path, keys)) as server:
        async with keeping(server) as keeper:
            for wrong in (flipped(keys.tokens[account_key(ACCOUNT)]), "nothing"):
                with pytest.raises(Refused):
                    await keeper.push(wrong)
        server.client(USER)


async def test_an_account_that_another_operator_has_signed_lets_nobody_in(tmp_path: Path, keys: Keyring) -> None:
    """The server stores it, and does not trust it. With the right one all is well again."""
    token = keys.tokens[account_key(ACCOUNT)]
    with running(KeyedNats(tmp_path, keys)) as server:
        async with keeping(server) as keeper:
            await keeper.push(changed(token, new_seed("operator")))
            with pytest.raises(Login):
                server.client(USER)
            server.client("worker_gpu")
            await keeper.push(token)
            server.client(USER)


async def test_the_users_of_an_account_that_expires_are_put_out(tmp_path: Path, keys: Keyring) -> None:
    soon = changed(keys.tokens[account_key(ACCOUNT)], keys.seed(OPERATOR), exp=int(time.time()) + 2)
    with running(KeyedNats(tmp_path, keys)) as server:
        client, other = server.client(USER), server.client("worker_gpu")
        async with keeping(server) as keeper:
            await keeper.push(soon)
        await until(client.flush, "it is put out", SOON_S, so=lambda said: bool(said))
        with pytest.raises(Login):
            server.client(USER)
        assert other.flush() == ""


def test_a_foreign_operators_users_are_refused(tmp_path: Path, keys: Keyring) -> None:
    foreign = keyring("jwt", tmp_path)
    with running(KeyedNats(tmp_path, keys)) as server, pytest.raises(Login):
        server.client("admin", foreign)


@pytest.mark.parametrize("whose", ["nobody's", "of another pool", "of another subject"])
def test_an_account_with_an_activation_of_another_is_refused(whose: str, tmp_path: Path, keys: Keyring) -> None:
    """As a whole, although the operator has signed it: the exporter has a say."""
    account = claims_of(keys.tokens[account_key(ACCOUNT)])
    imports = account["nats"]["imports"]
    beats = next(each for each in imports if each["subject"].startswith("$KV.noetl_workers."))
    other = claims_of(keys.tokens[account_key(pool_account("gpu"))])["nats"]["imports"]
    beats["token"] = {
        "nobody's": changed(beats["token"], new_seed("account")),
        "of another pool": next(each for each in other if each["subject"].startswith("$KV.noetl_workers."))["token"],
        "of another subject": next(each for each in imports if each is not beats)["token"],
    }[whose]
    server = KeyedNats(tmp_path, keys)
    part = tmp_path / documents.SERVER_FILE
    old = keys.tokens[account_key(ACCOUNT)]
    part.write_text(part.read_text().replace(old, changed(old, keys.seed(OPERATOR), nats=account["nats"])))
    with running(server):
        server.client("worker_gpu")
        with pytest.raises(Login):
            server.client(USER)


def test_a_key_that_the_configuration_does_not_have_is_refused(tmp_path: Path) -> None:
    with running(KeyedNats(tmp_path, keyring("accounts", tmp_path))) as server:
        with pytest.raises(Login):
            server.bare(new_seed("user"))
        with pytest.raises(Login):  # somebody else's public key, and one's own signature
            server.bare(new_seed("user"), nkey=server.keys.public(user_key("admin")))
