"""All keys of a broker's users, and what was signed with them: the one secret from which everything else is written
again. Pure but for new keys, which are random."""

import os
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from shared.bus import permissions, topology
from shared.bus.login.nkeys import Key, Kind, read_seed
from shared.bus.permissions import Account
from shared.errors import Refused
from shared.runtime.service.settings import Auth

Mode = Auth
OPERATOR = "operator"
RESOLVER = "/data/resolver"
KEY_BYTES = 32


class Keyring(Struct, frozen=True, kw_only=True):
    mode: Mode
    partitions: int = topology.PARTITIONS
    pools: tuple[str, ...] = ()
    seeds: dict[str, str] = {}
    tokens: dict[str, str] = {}
    resolver: str = RESOLVER  # folder of a server in which it keeps the accounts that are pushed to it
    revoked: dict[str, dict[str, int]] = {}  # account → public key of a user → since when
    over: dict[str, str] = {}  # public key of an account that is no more → its last token

    def __repr__(self) -> str:
        return f"Keyring({self.mode}, {len(self.seeds)} keys)"  # never a seed

    def seed(self, name: str) -> str:
        return self.seeds[name]

    def public(self, name: str) -> str:
        return public_of(self.seeds[name])

    @property
    def accounts(self) -> tuple[Account, ...]:
        """As the broker has them."""
        return accounts_of(self.mode, self.pools, self.partitions)

    @property
    def users(self) -> list[str]:
        return [user for account in self.accounts for user in account.users]

    def account_of(self, user: str) -> str:
        """Raises Refused if there is no such user."""
        for account in self.accounts:
            if user in account.users:
                return account.name
        raise Refused(f"no user {user!r}: there are {', '.join(self.users)}")


@lru_cache(maxsize=8)  # before and after a change, and what is offered to any pool
def accounts_of(mode: Mode, pools: tuple[str, ...], partitions: int) -> tuple[Account, ...]:
    if mode == "shared":
        return tuple(permissions.shared_accounts())
    return tuple(permissions.accounts(pools, partitions, system=True))


@lru_cache(maxsize=4096)
def public_of(seed: str) -> str:
    """Worked out once: an account names its exporter in every import."""
    return read_seed(seed).public


def account_key(name: str) -> str:
    return f"account/{name}"


def role_key(user: str) -> str:
    """Of the key that signs users of a role."""
    return f"role/{user}"


def user_key(user: str) -> str:
    return f"user/{user}"


def completed(keyring: Keyring) -> Keyring:
    """With a key for everybody who has none, and for nobody else."""
    wanted: dict[str, Kind] = {user_key(user): "user" for user in keyring.users}
    if keyring.mode == "jwt":
        wanted |= {OPERATOR: "operator"}
        wanted |= {account_key(account.name): "account" for account in keyring.accounts}
        wanted |= {role_key(user): "account" for user in keyring.users}
    seeds = {name: keyring.seeds.get(name) or new_seed(kind) for name, kind in wanted.items()}
    tokens = {name: token for name, token in keyring.tokens.items() if name in wanted}
    return replace(keyring, seeds=seeds, tokens=tokens, revoked=_known(keyring))


def rotated(keyring: Keyring, user: str, now: int) -> Keyring:
    """With another key for a user. The old one is revoked where a token would still be good for it."""
    account, name = keyring.account_of(user), user_key(user)
    seeds = {**keyring.seeds, name: new_seed("user")}
    if keyring.mode != "jwt":
        return replace(keyring, seeds=seeds)
    revoked = {**keyring.revoked.get(account, {}), keyring.public(name): now}
    return replace(keyring, seeds=seeds, revoked={**keyring.revoked, account: revoked})


def with_pools(keyring: Keyring, pools: tuple[str, ...]) -> Keyring:
    permissions.check_pools(pools)
    return replace(keyring, pools=pools)


def new_seed(kind: Kind) -> str:
    return Key(kind, os.urandom(KEY_BYTES)).seed


def _known(keyring: Keyring) -> dict[str, dict[str, int]]:
    names = {account.name for account in keyring.accounts}
    return {account: revoked for account, revoked in keyring.revoked.items() if account in names}
