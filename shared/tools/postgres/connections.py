"""Connections of `kind: postgres`: one bounded pool per target, closed when it is idle and room is needed."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from shared.errors import ToolError
from shared.tools.base.contract import Call, KeySpec
from shared.tools.base.guard import BadCall, mapping, one_of, seconds
from shared.tools.postgres.params import json_text

if TYPE_CHECKING:
    import asyncpg

POOL_SIZE = 4          # connections per target, unless spec.pool_size says otherwise
MAX_POOL_SIZE = 64
MAX_POOLS = 16         # targets kept open; the longest unused goes first
IDLE_S = 60.0
CONNECT_TIMEOUT_S = 10.0
RELEASE_TIMEOUT_S = 2.0
MAX_WAITING = 10_000   # calls that may wait for a connection of one pool
FIELDS = ("host", "port", "user", "password", "database", "ssl")
ALIASES = {"username": "user", "dbname": "database", "db": "database", "db_host": "host", "db_port": "port",
           "db_user": "user", "db_password": "password", "db_name": "database", "sslmode": "ssl"}


_FIELD = KeySpec("Field of a credential.")
WITH = dict.fromkeys((*FIELDS, *ALIASES), _FIELD)
POOL = {
    "name": KeySpec("Tasks that give it share connections with each other alone."),
    "max_size": KeySpec(f"Connections per database and worker, {POOL_SIZE} unless given."),
    "min_size": KeySpec("Above 0: connections stay open when nobody uses them."),
    "timeout": KeySpec("Seconds to wait for a free connection."),
    "max_waiting": KeySpec("Calls that may wait for one; another fails at once, to be tried again."),
}


class Busy(ToolError):
    """No connection is free, and the call is not to wait (longer) for one."""


class Target(msgspec.Struct, frozen=True):
    """Where to connect; equal targets share a pool."""

    dsn: str | None
    fields: tuple[tuple[str, Any], ...]
    size: int
    kept: bool = False
    name: str = ""


def place(where: Target, credential: str = "") -> str:
    """Where that is, for an error: the address, and the name of the credential."""
    fields = dict(where.fields)
    host, port = (str(fields.get(name) or "") for name in ("host", "port"))
    with contextlib.suppress(ValueError):  # asyncpg reads it otherwise than we do
        parsed = urlsplit(where.dsn or "")
        query = dict(parse_qsl(parsed.query))
        given = parsed.netloc.rpartition("@")[2] or ":".join(filter(None, (query.get("host"), query.get("port"))))
        host, port = (host, port) if host else (given, port)
    address = ":".join(filter(None, (host, port))) or "the database"
    return address + (f" (credential {credential})" if credential else "")


class Waiting(msgspec.Struct, frozen=True):
    """How one call waits for a connection."""

    seconds: float | None = None
    calls: int = MAX_WAITING


AT_EASE = Waiting()


def target(call: Call) -> Target:
    """The credential, or a `connection` string, which may itself come from the keychain."""
    pool = mapping(call.config, "pool")
    size = _whole("spec.pool_size", call.spec.get("pool_size", POOL_SIZE), 1, MAX_POOL_SIZE)
    size = _whole("pool.max_size", pool.get("max_size", size), 1, MAX_POOL_SIZE)
    kept = _whole("pool.min_size", pool.get("min_size", 0), 0, size) > 0
    auth = _named(call.auth or {})
    given = one_of(call.config, "connection", "dsn")
    dsn = given[1] if given else auth.get("dsn")
    if isinstance(dsn, Mapping):
        auth, dsn = auth | _named(dsn), None
    auth |= _named(mapping(call.config, "with"))
    fields = {name: auth[name] for name in FIELDS if auth.get(name) is not None}
    if not dsn and "host" not in fields:
        raise BadCall("no database to connect to: give auth with dsn or host, or connection")
    if "port" in fields:
        if not str(fields["port"]).isdigit():
            raise BadCall("the credential's port is not a number")
        fields["port"] = int(fields["port"])
    return Target(str(dsn) if dsn else None, tuple(sorted(fields.items())), size, kept, str(pool.get("name") or ""))


def waiting(call: Call) -> Waiting:
    pool = mapping(call.config, "pool")
    limit = None if pool.get("timeout") is None else seconds("timeout", pool["timeout"], "pool")
    return Waiting(limit, _whole("pool.max_waiting", pool.get("max_waiting", MAX_WAITING), 0, MAX_WAITING))


def _whole(name: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadCall(f"{name} must be a whole number from {least} to {most}")
    return value


def _named(credential: Mapping[str, Any]) -> dict[str, Any]:
    return {ALIASES.get(str(name), str(name)): value for name, value in credential.items()}


class Pools:
    def __init__(self) -> None:
        import asyncpg

        self._lib = asyncpg
        self._pools: dict[Target, asyncpg.Pool] = {}
        self._users: dict[Target, int] = {}

    @contextlib.asynccontextmanager
    async def connection(
        self, where: Target, wait: Waiting = AT_EASE
    ) -> "AsyncIterator[asyncpg.pool.PoolConnectionProxy]":
        if self._users.get(where, 0) >= where.size + wait.calls:
            raise Busy(f"all {where.size} connections are in use, and {wait.calls} calls wait for one already")
        self._users[where] = self._users.get(where, 0) + 1
        try:
            connection, pool = await self._acquired(where, wait)
            try:
                yield connection
            finally:
                with contextlib.suppress(Exception):  # what cannot be released is closed by the pool
                    await pool.release(connection, timeout=RELEASE_TIMEOUT_S)
        finally:
            self._users[where] -= 1

    async def _acquired(
        self, where: Target, wait: Waiting
    ) -> "tuple[asyncpg.pool.PoolConnectionProxy, asyncpg.Pool]":
        pool = await self._pool(where)
        if wait.seconds is None:
            return await pool.acquire(), pool
        try:
            return await pool.acquire(timeout=wait.seconds), pool
        except TimeoutError:
            raise Busy(f"no connection was free within {wait.seconds:g} s") from None

    async def _pool(self, where: Target) -> "asyncpg.Pool":
        pool = self._pools.pop(where, None)
        if pool is None:
            self._make_room()
            pool = self._lib.create_pool(
                where.dsn, min_size=0, max_size=where.size,
                max_inactive_connection_lifetime=0 if where.kept else IDLE_S,
                timeout=CONNECT_TIMEOUT_S, statement_cache_size=0, init=_prepare_connection,
                **dict(where.fields),
            )
        self._pools[where] = pool  # last: the most recently used
        return await pool

    def _make_room(self) -> None:
        for where in list(self._pools):
            if len(self._pools) < MAX_POOLS:
                return
            if not self._users.get(where):
                self._pools.pop(where).terminate()
                self._users.pop(where, None)

    async def close(self) -> None:
        for pool in self._pools.values():
            pool.terminate()
        self._pools.clear()


async def _prepare_connection(connection: "asyncpg.Connection") -> None:
    """JSON as values, also inside arrays; intervals as the server writes them (months are not seconds)."""
    for name in ("json", "jsonb"):
        await connection.set_type_codec(
            name, schema="pg_catalog", encoder=json_text, decoder=msgspec.json.decode, format="text",
        )
    await connection.set_type_codec("interval", schema="pg_catalog", encoder=str, decoder=str, format="text")
