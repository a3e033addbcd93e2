"""One session on Snowflake: its credential, its statements, its end. Blocking, for use on a thread."""

import contextlib
import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from shared.errors import Signal
from shared.tools.base.guard import BadCall

EXTRA = "the Snowflake connector is not installed: pip install 'noetl-jetstream[snowflake]'"
LOGIN_TIMEOUT_S = 30
FIELDS = ("account", "user", "password", "private_key", "private_key_passphrase", "token", "authenticator",
          "warehouse", "database", "schema", "role", "host", "port", "protocol")
PLACE = ("warehouse", "database", "schema", "role")  # what a task may say itself
JSON_TYPES = frozenset({5, 9, 10})  # VARIANT, OBJECT, ARRAY, as the connector numbers them
_NUMBERS = frozenset({type(None), bool, int, float, str, bytes, Decimal})


class Stopped(Signal):
    """The call was cancelled or is over its time; nobody waits for its answer."""


def library() -> Any:
    """The connector, or a mistake of the installation that the outcome tells."""
    try:
        import snowflake.connector
    except ImportError:
        raise BadCall(EXTRA) from None
    return snowflake.connector


def arguments(credential: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """What the connector is called with: the credential's fields, also with `sf_` before them."""
    named = {str(key).removeprefix("sf_"): value for key, value in credential.items() if value not in (None, "")}
    named.setdefault("user", named.pop("username", None))
    found = {field: named[field] for field in FIELDS if named.get(field) is not None}
    found |= {field: config[field] for field in PLACE if config.get(field) is not None}
    for field in ("account", "user"):
        if field not in found:
            raise BadCall(f"no {field} to connect with: give auth with account, user and a password or private_key")
    if "private_key" in found:
        found["private_key"] = _key(found["private_key"], found.pop("private_key_passphrase", None))
    elif "token" in found:
        found.setdefault("authenticator", "oauth")
    elif "password" not in found:
        raise BadCall("the credential has no password, private_key or token")
    return found


def _key(pem: Any, passphrase: Any) -> bytes:
    """The key as the connector wants it (PKCS #8, DER)."""
    from cryptography.hazmat.primitives import serialization

    try:
        key = serialization.load_pem_private_key(str(pem).encode(), str(passphrase).encode() if passphrase else None)
        return key.private_bytes(serialization.Encoding.DER, serialization.PrivateFormat.PKCS8,
                                 serialization.NoEncryption())
    except (ValueError, TypeError):
        raise BadCall("the credential's private_key is no PEM key, or its passphrase is wrong") from None


class Session:
    """`stop` may come from any thread, at any time: it ends the session, and with it what runs in it."""

    def __init__(self, lib: Any, arguments: Mapping[str, Any], tag: str, timeout_s: float) -> None:
        self._lib = lib
        self._arguments = arguments
        self._tag = tag
        self._timeout_s = max(1, math.ceil(timeout_s))
        self._connection: Any = None
        self._stopped = False

    @property
    def opened(self) -> bool:
        return self._connection is not None

    def open(self) -> None:
        """The server gets the limits too: it ends what a worker that died leaves behind."""
        session = {"STATEMENT_TIMEOUT_IN_SECONDS": self._timeout_s, "QUERY_TAG": self._tag}
        self._connection = self._lib.connect(
            **self._arguments, paramstyle="qmark", application="NoETL", session_parameters=session,
            login_timeout=min(LOGIN_TIMEOUT_S, self._timeout_s), network_timeout=self._timeout_s,
        )
        self._check()

    def execute(self, text: str, params: Sequence[Any] = ()) -> Any:
        """A cursor with the statement's answer."""
        self._check()
        cursor = self._connection.cursor()
        cursor.execute(text, [bindable(value) for value in params] or None, timeout=self._timeout_s)
        return cursor

    def execute_many(self, text: str, rows: Sequence[Sequence[Any]]) -> None:
        self._check()
        self._connection.cursor().executemany(text, [[bindable(value) for value in row] for row in rows])

    def _check(self) -> None:
        if self._stopped:
            raise Stopped

    def stop(self) -> None:
        self._stopped = True
        self.close()

    def close(self) -> None:
        """Ends the session; an open transaction is rolled back by the server."""
        if self._connection is not None:
            with contextlib.suppress(Exception):  # nothing is left to be saved
                self._connection.close()


def bindable(value: Any) -> Any:
    """Times go as text, which keeps their zone; what has no type there goes as JSON or as its text."""
    if type(value) in _NUMBERS:
        return value
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Mapping() | list() | tuple():
            return msgspec.json.encode(value).decode()
        case bytearray() | memoryview():
            return bytes(value)
        case _:
            return str(value)


def json_columns(cursor: Any) -> list[bool]:
    return [column[1] in JSON_TYPES for column in cursor.description or ()]


def with_json(batch: Sequence[Sequence[Any]], json: Sequence[bool]) -> Sequence[Sequence[Any]]:
    """Semi-structured values come as text; templates and other databases want the values."""
    if not any(json):
        return batch
    return [[_decoded(value) if is_json else value for value, is_json in zip(row, json, strict=True)] for row in batch]


def _decoded(value: Any) -> Any:
    try:
        return msgspec.json.decode(value) if isinstance(value, str) else value
    except msgspec.DecodeError:  # such as `undefined`, which JSON does not have
        return value
