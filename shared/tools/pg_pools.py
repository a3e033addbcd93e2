"""Connections of `kind: postgres`: one bounded pool per target, closed when it is idle and room is needed."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from shared.tools.contract import Call
from shared.tools.pg_params import json_text
from shared.tools.running import BadCall, one_of

if TYPE_CHECKING:
    import asyncpg

POOL_SIZE = 4          # connections per target, unless spec.pool_size says otherwise
MAX_POOL_SIZE = 64
MAX_POOLS = 16         # targets kept open; the longest unused goes first
IDLE_S = 60.0
CONNECT_TIMEOUT_S = 10.0
RELEASE_TIMEOUT_S = 2.0
FIELDS = ("host", "port", "user", "password", "database", "ssl")
ALIASES = {"username": "user", "dbname": "database", "db": "database", "db_host": "host", "db_port": "port",
           "db_user": "user", "db_password": "password", "db_name": "database", "sslmode": "ssl"}


class Target(msgspec.Struct, frozen=True):
    """Where to connect; equal targets share a pool."""

    dsn: str | None
    fields: tuple[tuple[str, Any], ...]
    size: int


def target(call: Call) -> Target:
    """The credential, or a `connection` string, which may itself come from the keychain."""
    size = call.spec.get("pool_size", POOL_SIZE)
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MAX_POOL_SIZE:
        raise BadCall(f"spec.pool_size must be a whole number from 1 to {MAX_POOL_SIZE}")
    auth = _named(call.auth or {})
    given = one_of(call.config, "connection", "dsn")
    dsn = given[1] if given else auth.get("dsn")
    if isinstance(dsn, Mapping):
        auth, dsn = auth | _named(dsn), None
    fields = {name: auth[name] for name in FIELDS if auth.get(name) is not None}
    if not dsn and "host" not in fields:
        raise BadCall("no database to connect to: give auth with dsn or host, or connection")
    if "port" in fields:
        if not str(fields["port"]).isdigit():
            raise BadCall("the credential's port is not a number")
        fields["port"] = int(fields["port"])
    return Target(str(dsn) if dsn else None, tuple(sorted(fields.items())), size)


def _named(credential: Mapping[str, Any]) -> dict[str, Any]:
    return {ALIASES.get(str(name), str(name)): value for name, value in credential.items()}


class Pools:
    def __init__(self) -> None:
        import asyncpg

        self._lib = asyncpg
        self._pools: dict[Target, asyncpg.Pool] = {}
        self._users: dict[Target, int] = {}

    @contextlib.asynccontextmanager
    async def connection(self, where: Target) -> "AsyncIterator[asyncpg.pool.PoolConnectionProxy]":
        self._users[where] = self._users.get(where, 0) + 1
        try:
            pool = await self._pool(where)
            connection = await pool.acquire()
            try:
                yield connection
            finally:
                with contextlib.suppress(Exception):  # what cannot be released is closed by the pool
                    await pool.release(connection, timeout=RELEASE_TIMEOUT_S)
        finally:
            self._users[where] -= 1

    async def _pool(self, where: Target) -> "asyncpg.Pool":
        pool = self._pools.pop(where, None)
        if pool is None:
            self._make_room()
            pool = self._lib.create_pool(
                where.dsn, min_size=0, max_size=where.size, max_inactive_connection_lifetime=IDLE_S,
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
