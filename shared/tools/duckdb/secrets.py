"""Credentials for DuckDB: `auth` of a task as secrets of its connection, which SQL names (`SECRET pg_db`) or
DuckDB picks by the address of a file (`gs://bucket/…`)."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from shared.tools.base.guard import BadCall
from shared.tools.postgres.connections import ALIASES
from shared.tools.sql.text import Statement, literal, quote

ALONE = "secret"  # the name of a credential without an alias
# What people call a credential's type → DuckDB's.
TYPES = {"postgres": "postgres", "postgresql": "postgres", "pg": "postgres", "hmac": "gcs", "gcs_hmac": "gcs",
         "gcs": "gcs", "s3": "s3", "aws": "s3", "s3_hmac": "s3"}
# Field of the secret → names it may have in a credential.
_OBJECTS = {"key_id": ("key_id", "access_key_id", "aws_access_key_id"),
            "secret": ("secret", "secret_key", "secret_access_key", "aws_secret_access_key")}
_FIELDS: dict[str, dict[str, tuple[str, ...]]] = {
    "postgres": {name: (name, *(old for old, new in ALIASES.items() if new == name))
                 for name in ("host", "port", "database", "user", "password")},
    "gcs": {**_OBJECTS, "scope": ("scope",)},
    "s3": {**_OBJECTS, "region": ("region",), "endpoint": ("endpoint",),
           "session_token": ("session_token", "aws_session_token"), "scope": ("scope",)},
}
_ADDRESSES = {"gcs": ("gs://", "gcs://"), "s3": ("s3://",), "postgres": ()}


class Secret(NamedTuple):
    """`scopes`: the addresses at which SQL may use files with it."""

    name: str
    kind: str
    scopes: tuple[str, ...]
    text: str  # the statement that makes it


def secrets(auth: Mapping[str, Any] | None, statements: list[Statement]) -> list[Secret]:
    """The secrets these statements use: each needs an extension of DuckDB."""
    if not auth:
        return []
    by_alias = auth if all(isinstance(each, Mapping) for each in auth.values()) else {ALONE: auth}
    text = "\n".join(part for each in statements for part in (each.text, *map(str, each.params)))
    made = []
    for alias, credential in by_alias.items():
        kind = _kind(alias, credential)
        named = re.search(rf"(?<![\w$]){re.escape(alias)}(?![\w$])", text, re.IGNORECASE)
        if named or any(head in text for head in _ADDRESSES[kind]):
            made.append(Secret(alias, kind, _scopes(alias, kind, credential), _secret(alias, kind, credential)))
    return made


def _scopes(alias: str, kind: str, credential: Mapping[str, Any]) -> tuple[str, ...]:
    given, heads = credential.get("scope"), _ADDRESSES[kind]
    if not heads or given is None:
        return heads
    if not isinstance(given, str) or not given.startswith(heads) or ".." in given:
        raise BadCall(f"auth.{alias}: scope must begin with one of {', '.join(heads)}")
    return (given,)


def _kind(alias: str, credential: Mapping[str, Any]) -> str:
    given = str(credential.get("type") or "")
    kind = TYPES.get(given.lower())
    if kind is None:
        raise BadCall(f"auth.{alias}: DuckDB has no secret for a credential of type {given[:60]!r}: "
                      f"one of {', '.join(TYPES)}")
    return kind


def _secret(alias: str, kind: str, credential: Mapping[str, Any]) -> str:
    given = _parsed(credential) if kind == "postgres" else credential
    fields = {name: next((given[each] for each in names if given.get(each) not in (None, "")), None)
              for name, names in _FIELDS[kind].items()}
    if kind != "postgres" and not (fields["key_id"] and fields["secret"]):
        raise BadCall(f"auth.{alias}: the credential has no key_id and secret")
    found = [f"{name.upper()} {literal(str(value), escapes=False)}"
             for name, value in fields.items() if value is not None]
    return f"CREATE OR REPLACE TEMPORARY SECRET {quote(alias)} ({', '.join([f'TYPE {kind}', *found])})"


def _parsed(credential: Mapping[str, Any]) -> Mapping[str, Any]:
    """A connection string taken apart, under the fields beside it."""
    dsn = credential.get("dsn")
    if not isinstance(dsn, str):
        return credential
    try:
        url = urlsplit(dsn)
        parts = {"host": url.hostname, "port": url.port, "user": url.username, "password": url.password,
                 "database": url.path.lstrip("/")}
    except ValueError:
        raise BadCall("the credential's dsn cannot be read") from None
    decoded = {name: unquote(value) if isinstance(value, str) else value for name, value in parts.items()}
    given = {ALIASES.get(name, name): value for name, value in parse_qsl(url.query)}  # also a socket's folder, as host
    return {**decoded, **given, **credential}
