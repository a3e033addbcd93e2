"""Extensions of DuckDB that packages carry: loaded from there, so that nothing is downloaded. Whatever else a
statement installs or loads is DuckDB's own affair."""

import re

from shared.tools.ducklake_catalog import load
from shared.tools.sql_text import Statement

# Names people use → the extension's own; type of a secret → the extension that has it.
NAMES = {"postgres": "postgres_scanner", "sqlite": "sqlite_scanner", "mysql": "mysql_scanner", "s3": "httpfs",
         "http": "httpfs", "https": "httpfs"}
OF_SECRETS = {"postgres": "postgres_scanner", "gcs": "httpfs", "s3": "httpfs"}
_STATEMENT = re.compile(r"(install|load)\s+(['\"]?)(\w+)\2\Z", re.IGNORECASE)


def carried(statements: list[Statement], version: str) -> list[Statement]:
    """The statements, with `INSTALL` and `LOAD` of such an extension as one `LOAD` of its file."""
    return [_carried(each, version) for each in statements]


def _carried(statement: Statement, version: str) -> Statement:
    found = _STATEMENT.match(statement.text)
    text = _file(found[3].lower(), version) if found else None
    return Statement(text, "LOAD", []) if text else statement


def for_secrets(kinds: list[str], version: str) -> list[str]:
    """What is loaded before secrets of these types are made."""
    files = (_file(OF_SECRETS[kind], version) for kind in dict.fromkeys(kinds))
    return [file for file in files if file]


def _file(name: str, version: str) -> str | None:
    extension = NAMES.get(name, name)
    text = load(extension, version)
    return text if text != f"LOAD {extension}" else None
