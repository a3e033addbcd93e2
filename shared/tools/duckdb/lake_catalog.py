"""Where a DuckLake is: its catalogue, in PostgreSQL or in a file, its data, and the statements that attach it."""

import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from shared.tools.base.contract import Call
from shared.tools.base.guard import BadCall
from shared.tools.duckdb.guard import Guard
from shared.tools.postgres.connections import ALIASES
from shared.tools.sql.text import literal, quote

POSTGRES = ("postgres://", "postgresql://")
LAKE, SERVER, REMOTE = "ducklake", "postgres_scanner", "httpfs"  # DuckDB's extensions
# Field of the credential → word of a PostgreSQL connection string.
_WORDS = {"host": "host", "port": "port", "user": "user", "password": "password", "database": "dbname",
          "ssl": "sslmode"}
_PAIR = re.compile(r"\bpassword\s*=\s*('(?:[^'\\]|\\.)*'|\S+)", re.IGNORECASE)


class Catalog(Struct, frozen=True):
    """`place` is what DuckLake attaches, `secrets` what of it must not be shown."""

    name: str
    place: str
    data_path: str | None
    extensions: tuple[str, ...]
    secrets: tuple[str, ...]

    def statements(self) -> list[str]:
        options = f" (DATA_PATH {literal(self.data_path, escapes=False)})" if self.data_path else ""
        place = literal(f"ducklake:{self.place}", escapes=False)
        return [f"ATTACH {place} AS {quote(self.name)}{options}", f"USE {quote(self.name)}"]


def catalog(call: Call, guard: Guard) -> Catalog:
    name, given = call.config.get("catalog_name"), call.config.get("catalog_connection")
    if not isinstance(name, str) or not name:
        raise BadCall("catalog_name is needed: what the lake is called in SQL")
    path = call.config.get("data_path")
    if path is not None and (not isinstance(path, str) or not path):
        raise BadCall("data_path must be the path of a folder, or an address such as s3://bucket/folder")
    path = guard.place("data_path", path) if path is not None else None
    if (given is None) == (call.auth is None):
        raise BadCall("give either auth or catalog_connection: where the catalogue of the lake is")
    connection = given if given is not None else _connection(call.auth or {})
    if not isinstance(connection, str) or not connection:
        raise BadCall("catalog_connection must be a PostgreSQL connection string, or the path of a file")
    lake = (LAKE, REMOTE) if path and "://" in path else (LAKE,)
    if connection.startswith(POSTGRES) or "=" in connection:
        secrets = (connection, *_passwords(connection))
        return Catalog(name, f"postgres:{connection}", path, (*lake, SERVER), secrets)
    return Catalog(name, guard.file("catalog_connection", connection), path, lake, ())


def _connection(credential: Mapping[str, Any]) -> str:
    named = {ALIASES.get(str(key), str(key)): value for key, value in credential.items()}
    if named.get("dsn"):
        return str(named["dsn"])
    words = [f"{word}={_word(named[field])}" for field, word in _WORDS.items() if named.get(field) is not None]
    if "host" not in named:
        raise BadCall("the credential has no dsn and no host")
    return " ".join(words)


def _word(value: Any) -> str:
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"


def _passwords(connection: str) -> list[str]:
    """A password as it is written and as it is meant: messages may show either."""
    if connection.startswith(POSTGRES):
        try:
            password = urlsplit(connection).password or ""
        except ValueError:
            return []
        return [each for each in {password, unquote(password)} if each]
    return [found.strip("'") for found in _PAIR.findall(connection)]


def load(extension: str, version: str) -> str:
    """From the package that carries it, if it is for this DuckDB; else from the folder of extensions."""
    package = importlib.util.find_spec(f"duckdb_extension_{extension}")
    for folder in package.submodule_search_locations or () if package else ():
        file = Path(folder) / "extensions" / f"v{version}" / f"{extension}.duckdb_extension"
        if file.is_file():
            return f"LOAD {literal(str(file), escapes=False)}"
    return f"LOAD {extension}"
