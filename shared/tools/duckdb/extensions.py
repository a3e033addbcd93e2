"""Extensions of DuckDB: loaded before a database is locked, from the package that carries one or from the worker's
folder of extensions. None is ever downloaded."""

import re

from shared.tools.base.guard import BadCall
from shared.tools.duckdb.lake_catalog import load
from shared.tools.sql.text import Statement

# Names people use → the extension's own; type of a secret → the extension that has it.
NAMES = {"postgres": "postgres_scanner", "sqlite": "sqlite_scanner", "mysql": "mysql_scanner", "s3": "httpfs",
         "http": "httpfs", "https": "httpfs"}
OF_SECRETS = {"postgres": "postgres_scanner", "gcs": "httpfs", "s3": "httpfs"}
_VERBS = ("INSTALL", "LOAD", "FORCE")
_STATEMENT = re.compile(r"(?:install|load)\s+(['\"]?)(\w+)\1\Z", re.IGNORECASE)
_NAME = r"(?:\w+|\"(?:[^\"]|\"\")+\")"
_OPTION = rf"(?:type\s+'?postgres'?|secret\s+{_NAME}|read_only(?:\s+true)?|schema\s+'(?:[^']|'')*')"
# The secret says where the server is. An address in the statement would get the secret's password.
_ATTACH = re.compile(rf"attach\s+(?:database\s+)?(?:if\s+not\s+exists\s+|or\s+replace\s+)?''\s+as\s+{_NAME}\s*"
                     rf"\(\s*({_OPTION}(?:\s*,\s*{_OPTION})*)\s*\)\Z", re.IGNORECASE)
_BEFORE = re.compile(r"(?:\s+|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)  # a statement: comments
_SECRET = re.compile(rf"secret\s+({_NAME})", re.IGNORECASE)


def loaded(statements: list[Statement], version: str) -> tuple[list[str], list[Statement]]:
    """What is loaded first, and the statements with nothing in the place of those."""
    loads = []
    rest = []
    for each in statements:
        if each.verb in _VERBS:
            loads.append(_load(each.text, version))
            each = Statement("", each.verb, [])
        rest.append(each)
    return list(dict.fromkeys(loads)), rest


def _load(text: str, version: str) -> str:
    found = _STATEMENT.match(_bare(text))
    if found is None:
        raise BadCall("a task loads an extension of DuckDB by its name (LOAD httpfs) and installs none: who runs the "
                      "worker does, with pip or in NOETL_DUCKDB_EXTENSIONS")
    name = found[2].lower()
    return load(NAMES.get(name, name), version)


def attached(statements: list[Statement], aliases: list[str]) -> tuple[list[str], list[Statement]]:
    """The same for PostgreSQL, attached by the secret of one of these aliases."""
    attach = [each.text for each in statements if _is_ours(each, aliases)]
    return attach, [Statement("", each.verb, []) if _is_ours(each, aliases) else each for each in statements]


def _is_ours(statement: Statement, aliases: list[str]) -> bool:
    found = _ATTACH.match(_bare(statement.text)) if statement.verb == "ATTACH" else None
    if found is None or not re.search(r"type\s", found[1], re.IGNORECASE):
        return False
    named = [each.strip('"').replace('""', '"').lower() for each in _SECRET.findall(found[1])]
    return len(named) == 1 and named[0] in [each.lower() for each in aliases]


def _bare(text: str) -> str:
    return _BEFORE.sub("", text, count=1).rstrip()


def for_secrets(kinds: list[str], version: str) -> list[str]:
    """What is loaded before secrets of these types are made."""
    return [load(OF_SECRETS[kind], version) for kind in dict.fromkeys(kinds)]
