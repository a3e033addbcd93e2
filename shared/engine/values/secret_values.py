"""Which values of a credential are secret: every text and long number in it, but not what it says of itself and not
the names of whoever it lets in where. Whatever is also such a name is none either: a database `shop_db` whose user and
password have that name too would blank out its own name in every result."""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

LEAST = 6        # characters: a shorter value stands in too much that is not secret
LEAST_LINE = 16  # characters of one line of a key that has many
MOST = 2000      # values of one credential; a key of 8192 bits has 200 lines
# Fields that say who and where. A password that stands in one of them, as in a URL, is found all the same.
PUBLIC = frozenset({
    "type", "kind", "scope", "scopes", "service", "provider", "driver", "description", "version", "sslmode", "ssl",
    "user", "username", "user_name", "login", "email", "client_email", "client_id",
    "database", "dbname", "db", "name", "schema", "warehouse", "role", "account", "tenant", "tenant_id",
    "project", "project_id", "bucket", "region", "zone", "namespace",
    "host", "hostname", "port", "server", "servers", "endpoint", "url", "uri", "base_url",
    "ca", "auth_uri", "token_uri", "auth_provider_x509_cert_url", "client_x509_cert_url", "universe_domain",
    "expires_in", "expires_at", "expires", "issued_at", "created_at", "updated_at", "token_type",
    "accept", "accept_encoding", "accept_language", "content_type", "user_agent",
})
_PREFIX = re.compile(r"(db|database|pg|postgres|postgresql|sf|snowflake|nats|gcs|gcp|aws|s3)_(?=.)")
_NAMED = re.compile(r"\b(user|dbname|password|passfile)\s*=\s*('(?:[^'\\]|\\.)*'|\S+)")  # libpq's other form
_ESCAPED = re.compile(rb"%([0-9a-fA-F]{2})")
_SCHEME = re.compile(r"(?i)(bearer|basic|token|apikey|api-key)\s+(\S.*)")


def secret_values(*credentials: Any) -> tuple[frozenset[str], frozenset[str]]:
    """The secrets, and the names that are none."""
    found = _Found()
    for credential in credentials:
        found.add(credential, "")
    names = frozenset(found.names)
    return frozenset(text for text in found.values if len(text) >= LEAST) - names, names


class _Found:
    def __init__(self) -> None:
        self.values: set[str] = set()
        self.names: set[str] = set()

    def add(self, value: Any, key: str) -> None:
        match value:
            case Mapping():
                for name, item in value.items():
                    self.add(item, _PREFIX.sub("", str(name).lower().replace("-", "_"), count=1))
            case list() | tuple():
                for item in value:
                    self.add(item, key)
            case str() if value:
                self._text(value, public=key in PUBLIC)
            case int() if not isinstance(value, bool) and key not in PUBLIC:
                self._secret(str(value))

    def _text(self, text: str, *, public: bool) -> None:
        if "://" in text:
            self._address(text)
        if public:
            self.names.add(text)
            return
        self._secret(text)
        for name, value in _NAMED.findall(text) if "=" in text else ():
            self._part(name, re.sub(r"\\(.)", r"\1", value[1:-1]) if value[0] == "'" else value)
        if (scheme := _SCHEME.fullmatch(text)) is not None:
            self._authorization(scheme[1].lower(), scheme[2])
        if text.lstrip().startswith("{"):
            self._document(text)

    def _secret(self, text: str) -> None:
        if len(self.values) >= MOST:
            return
        self.values |= {text, text.strip()}
        lines = text.splitlines()
        if len(lines) > 1:
            self.values.update(line.strip() for line in lines[:MOST]
                               if len(line.strip()) >= LEAST_LINE and not line.startswith("-----"))

    def _part(self, name: str, value: str) -> None:
        if name == "password":
            self._secret(value)
        else:
            self.names.add(value)

    def _address(self, text: str) -> None:
        """`scheme://user:password@host/database?password=…`"""
        for name, value in _parts(text):
            if value:
                self._part(name, value)
                self._part(name, _unescaped(value))

    def _authorization(self, scheme: str, rest: str) -> None:
        self._secret(rest)
        if scheme == "basic":
            try:
                user, _, password = base64.b64decode(rest).decode().partition(":")
            except (binascii.Error, UnicodeDecodeError, ValueError):
                return
            self.names.add(user)
            self._secret(password)

    def _document(self, text: str) -> None:
        """JSON within a field, as the key of a service account is often kept."""
        try:
            self.add(msgspec.json.decode(text, type=dict[str, Any]), "")
        except (msgspec.DecodeError, RecursionError):
            return


def _parts(address: str) -> Iterator[tuple[str, str]]:
    beside, _, query = address.partition("://")[2].partition("#")[0].partition("?")
    authority, _, path = beside.partition("/")
    user, _, password = authority.rpartition("@")[0].partition(":")
    yield from (("user", user), ("password", password), ("dbname", path.strip("/")))
    for each in query.split("&"):
        name, _, value = each.partition("=")
        if name in ("user", "dbname", "password"):
            yield name, value


def _unescaped(text: str) -> str:
    data = _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), text.encode("utf-8", "surrogatepass"))
    return data.decode("utf-8", "replace")
