"""A keyring: made once, changed by as little as possible, and secret in one place alone."""

import re
from collections.abc import Sequence

import msgspec
import pytest
from msgspec.structs import replace

from shared.bus import permissions
from shared.bus.login.nkeys import read_seed
from shared.bus.subject import covers
from shared.errors import Refused
from shared.runtime.broker_auth import documents
from shared.runtime.broker_auth.keyring import Keyring, Mode, rotated, user_key, with_pools
from shared.runtime.broker_auth.operator import EVERYONE
from shared.runtime.broker_auth.tokens import claims_of

MODES: Sequence[Mode] = ("accounts", "jwt", "shared")
SEED = re.compile(r"\bS[OAU][A-Z2-7]{56}\b")
NOW = 1_790_000_000


def made(mode: Mode, *pools: str, now: int = NOW) -> Keyring:
    return documents.ready(Keyring(mode=mode, pools=pools or ("default",), partitions=1), now)


@pytest.mark.parametrize("mode", MODES)
def test_what_is_there_is_not_made_again(mode: Mode) -> None:
    keys = made(mode)
    assert documents.ready(keys, NOW + 500) == keys
    again = msgspec.json.decode(msgspec.json.encode(keys), type=Keyring)
    assert documents.server_part(again) == documents.server_part(keys)


@pytest.mark.parametrize("mode", MODES)
def test_what_servers_include_holds_no_secret(mode: Mode) -> None:
    keys = made(mode)
    part = documents.server_part(keys)
    assert not SEED.search(part)
    assert all(SEED.search(text) for text in documents.user_files(keys).values())
    assert not SEED.search(repr(keys))


@pytest.mark.parametrize("mode", ["accounts", "jwt"])
def test_a_new_pool_changes_nobody_elses_key_and_no_account_but_its_own(mode: Mode) -> None:
    before = made(mode)
    after = documents.ready(with_pools(before, ("default", "etl")), NOW + 500)
    files = documents.user_files(after)
    assert {name: files[name] for name in documents.user_files(before)} == documents.user_files(before)
    assert set(files) - set(documents.user_files(before)) == {documents.user_file(after, "worker_etl")}
    assert {name: after.tokens[name] for name in before.tokens} == before.tokens


def test_a_pool_that_is_gone_has_a_last_token_that_lets_nobody_in() -> None:
    before = made("jwt", "default", "etl")
    public = before.public("account/POOL_etl")
    after = documents.ready(with_pools(before, ("default",)), NOW + 500)
    last = claims_of(after.over[public])
    assert (last["sub"], last["nats"]["revocations"]) == (public, {EVERYONE: NOW + 500})
    assert "imports" not in last["nats"]
    assert not any("etl" in name for name in (*after.seeds, *after.tokens))
    assert documents.account_tokens(after)[public] == after.over[public]
    back = documents.ready(with_pools(after, ("default", "etl")), NOW + 900)
    assert back.public("account/POOL_etl") != public


@pytest.mark.parametrize("mode", MODES)
def test_another_key_is_that_of_one_user(mode: Mode) -> None:
    keys = made(mode)
    user = keys.users[-1]
    after = documents.ready(rotated(keys, user, NOW + 5), NOW + 5)
    assert {name for name in keys.seeds if keys.seeds[name] != after.seeds[name]} == {user_key(user)}
    if mode == "jwt":
        account = keys.account_of(user)
        assert after.revoked == {account: {keys.public(user_key(user)): NOW + 5}}
        revoked = claims_of(after.tokens[f"account/{account}"])["nats"]["revocations"]
        assert revoked == {keys.public(user_key(user)): NOW + 5}


def test_who_is_not_there_has_no_key() -> None:
    with pytest.raises(Refused, match=r"no user 'nobody': there are system, router"):
        rotated(made("accounts"), "nobody", NOW)
    with pytest.raises(Refused, match="not a pool name"):
        with_pools(made("accounts"), ("a.b",))


def test_keys_are_of_the_kind_that_their_place_needs() -> None:
    kinds = {name.partition("/")[0]: read_seed(seed).kind for name, seed in made("jwt").seeds.items()}
    assert kinds == {"operator": "operator", "account": "account", "role": "account", "user": "user"}


def test_a_users_token_says_nothing_of_what_it_may_do() -> None:
    """Its role's key does, in the token of its account: a client sends its own in a line of at most 4 KB."""
    keys = made("jwt")
    user, account = claims_of(keys.tokens["user/router"]), claims_of(keys.tokens["account/NOETL"])
    assert set(user["nats"]) == {"type", "version", "issuer_account"}
    (role,) = [each for each in account["nats"]["signing_keys"] if each["role"] == "router"]
    assert (user["iss"], user["nats"]["issuer_account"]) == (role["key"], account["sub"])
    assert "noetl.events.*.*.router" in role["template"]["pub"]["allow"]
    assert max(map(len, documents.user_files(replace(keys)).values())) < 1024


def test_no_line_of_the_rules_says_what_another_says() -> None:
    for account in permissions.accounts(("default",), 4, system=True):
        for grant in filter(None, account.users.values()):
            for lines in (grant.publish, grant.subscribe, grant.publish_not, grant.subscribe_not):
                assert [(a, b) for a in lines for b in lines if a != b and covers(a, b)] == []


@pytest.mark.parametrize(
    ("pattern", "other", "is_so"),
    [("a.*", "a.b", True), ("a.*", "a.*", True), ("a.*", "a.>", False), ("a.>", "a.*", True), ("a.>", "a.b.>", True),
     ("a.b.>", "a.>", False), (">", "a.>", True), ("a.*", "a.b.c", False), ("a.*.>", "a.>", False)],
)
def test_a_pattern_covers_another(pattern: str, other: str, is_so: bool) -> None:
    assert covers(pattern, other) == is_so
