"""The keyring behind `noetlctl admin nats-auth`: made, shown and changed in its folder, and told to a broker."""

import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from services.cli.console import exits
from services.cli.console.exits import CliError
from shared.bus.permissions import SYSTEM_USER, worker_user
from shared.dsl.read.pool_names import is_pool_name, name_fix
from shared.errors import NoetlError, Refused
from shared.runtime.broker_auth import documents, folder
from shared.runtime.broker_auth.kept_accounts import KeptAccounts, as_user
from shared.runtime.broker_auth.keyring import Keyring, Mode, rotated, user_key, with_pools
from shared.runtime.broker_auth.pool_accounts import PoolAccounts
from shared.runtime.service.clock import SystemClock
from shared.runtime.service.settings import Settings

ADMIN: Literal["admin"] = "admin"
WARNING = (
    "everybody has one key, and whoever has it may do everything: start executions, write the log, read credentials. "
    "A task can read the key of its worker."
)


Change = Callable[[Keyring | None], Keyring]


def read(place: Path) -> Keyring:
    found = _read(place / folder.KEYRING)
    if found is None:
        raise CliError(f"no keyring in {place}: `noetlctl admin nats-auth ensure` makes one", exits.NOT_FOUND)
    return found


def _read(path: Path) -> Keyring | None:
    try:
        if path.stat().st_mode & stat.S_IROTH:
            raise CliError(f"{path} holds every key, and everybody can read it: chmod 600 {path}", exits.INVALID)
        return folder.read(path)
    except FileNotFoundError:
        return None
    except Refused as error:
        raise CliError(str(error), exits.INVALID) from None


def first(place: Path, given: Path | None) -> Keyring | None:
    """The keyring to begin with: the one that is given, or else that of the folder."""
    found = _read(given) if given is not None else None
    return found if found is not None else _read(place / folder.KEYRING)


class Wish(Struct, frozen=True, kw_only=True):
    """What is asked for; what is not said stays as it is."""

    mode: Mode | None = None
    pools: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    partitions: int | None = None
    resolver: str | None = None


def wanted(known: Keyring | None, wish: Wish) -> Keyring:
    """Again, it changes nothing."""
    if known is not None and wish.mode is not None and known.mode != wish.mode:
        why = "keys of one mode are of no use in another: give another --out, and every service its new file"
        raise CliError(f"the folder is of mode {known.mode}: {why}", exits.CONFLICT)
    before = known or Keyring(mode=wish.mode or "accounts", pools=() if wish.pools else ("default",))
    if wrong := [name for name in wish.pools if name not in before.pools and not is_pool_name(name)]:
        raise CliError(f"a pool cannot be called {wrong[0]!r} ({name_fix(wrong[0])})", exits.USAGE)
    pools = tuple(name for name in dict.fromkeys((*before.pools, *wish.pools)) if name not in wish.without)
    partitions, resolver = wish.partitions or before.partitions, wish.resolver or before.resolver
    said = replace(before, partitions=partitions, resolver=resolver)
    try:
        return with_pools(said, pools)
    except Refused as error:
        raise CliError(str(error), exits.USAGE) from None


def stored(place: Path, given: Path | None, how: Change) -> tuple[Keyring, bool]:
    """Changed in the folder; whether anything is other than it was."""
    try:
        handle = folder.hold(place)
        try:
            _check(place, given)
            keyring = documents.ready(how(first(place, given)), int(time.time()))
            return keyring, folder.write(place, keyring)
        finally:
            os.close(handle)
    except OSError as error:
        raise CliError(f"cannot write to {place}: {error.strerror}") from None


def _check(place: Path, given: Path | None) -> None:
    """Raises where keys would not be safe, or others than those in use would take their place."""
    about = place.stat()
    if about.st_uid == os.geteuid() and about.st_mode & stat.S_IWOTH and not about.st_mode & stat.S_ISVTX:
        raise CliError(f"everybody can write to {place}, where the keys are: chmod go-w {place}", exits.INVALID)
    if first(place, given) is None and (keys := [file.name for file in place.iterdir() if file.suffix in folder.KEYS]):
        raise CliError(f"{place} has keys ({min(keys)}) and no {folder.KEYRING}, from which they were made: bring it "
                       "back, or give another --out. New ones would be others than those in use.", exits.CONFLICT)


async def told(place: Path, broker: Settings, how: Callable[[Keyring], Keyring], fresh: Sequence[str] = ()) -> Keyring:
    """Changed in the folder and on the broker."""
    try:
        return await KeptAccounts(place, broker, SystemClock()).change(how, fresh)
    except NoetlError as error:
        fix = f"have its servers include {place / documents.SERVER_FILE} and start them, or leave --apply out"
        raise CliError(f"the broker was not told: {error} ({fix})") from None


def followed(place: Path, broker: Settings, changed: Callable[[], None]) -> PoolAccounts:
    """The accounts, as the documents of pools say; `keep` follows them. A pool of the keyring that never had a document
    stays."""
    keyring = read(place)
    user = keyring.users[0] if keyring.mode == "shared" else ADMIN
    admin = replace(as_user(broker, place, keyring, user), role=ADMIN)
    return PoolAccounts(KeptAccounts(place, broker, SystemClock()), admin, keyring.pools, changed)


def another_key(keyring: Keyring, user: str, now: int) -> Keyring:
    try:
        return rotated(keyring, user, now)
    except Refused as error:
        raise CliError(str(error), exits.NOT_FOUND) from None


def user_of(name: str, pool: str) -> str:
    if bool(name) == bool(pool):
        raise CliError("name one: a USER, or the pool by --pool", exits.USAGE)
    return name or worker_user(pool)


def rows(place: Path, keyring: Keyring) -> list[dict[str, Any]]:
    """Who there is; nothing that is secret."""
    return [
        {"user": user, "account": account.name, "key": keyring.public(user_key(user)),
         "file": str(place / documents.user_file(keyring, user))}
        for account in keyring.accounts for user in account.users
    ]  # fmt: skip


def rights(place: Path, keyring: Keyring, user: str) -> dict[str, Any]:
    """What a user may do."""
    try:
        account = keyring.account_of(user)
    except Refused as error:
        raise CliError(str(error), exits.NOT_FOUND) from None
    row = next(row for row in rows(place, keyring) if row["user"] == user)
    grant = next(each for each in keyring.accounts if each.name == account).users[user]
    said: Mapping[str, Any] = {"publish": [">"], "hear": [">"], "never_publish": [], "never_hear": []}
    if grant is not None:
        said = {"publish": list(grant.publish), "hear": list(grant.subscribe),
                "never_publish": list(grant.publish_not), "never_hear": list(grant.subscribe_not)}
    return {**row, **said}


def manifests(keyring: Keyring, name: str) -> list[dict[str, Any]]:
    """For Kubernetes: the files of users with what servers include, and apart from them what only whoever keeps the
    accounts needs."""
    files = documents.user_files(keyring)
    own = {file: text for file, text in files.items() if file.startswith(f"{SYSTEM_USER}.")}
    users = {file: text for file, text in files.items() if file not in own}
    return [
        _secret(name, {**users, documents.SERVER_FILE: documents.server_part(keyring)}),
        _secret(f"{name}-keyring", {**own, folder.KEYRING: folder.text_of(keyring)}),
    ]


def _secret(name: str, files: Mapping[str, str]) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"app.kubernetes.io/part-of": "noetl"}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "stringData": dict(files)}
