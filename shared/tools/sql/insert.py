"""The insert that `table:` with `args:` stands for (FX §6.1, FS §10), also as an upsert."""

from collections.abc import Mapping
from typing import Any

from shared.tools.base.guard import BadCall
from shared.tools.sql.text import INSERT_ROWS, Statement, quote

MODES = ("insert", "upsert")


def insert(table: Any, args: Any, mode: Any = None, key: Any = None) -> list[Statement]:
    """One row per mapping; the columns are its keys. `upsert` updates the row that has the same `key`."""
    rows = rows_of(table, args)
    keys = _keys(mode or "insert", key)
    return [_insert_row(table, row, keys) for row in rows]


def rows_of(table: Any, args: Any) -> list[Any]:
    """What `args` has for the table: one row, or a list of them."""
    rows = [args] if isinstance(args, Mapping) else args
    if not isinstance(table, str) or not isinstance(rows, list) or not rows:
        raise BadCall("table needs args: a mapping from column to value, or a list of such rows")
    if len(rows) > INSERT_ROWS:
        raise BadCall(f"one task inserts at most {INSERT_ROWS} rows")
    return rows


def _keys(mode: Any, key: Any) -> list[str]:
    """The columns that tell rows apart; none for a plain insert."""
    if mode not in MODES:
        raise BadCall(f"mode must be one of {', '.join(MODES)}")
    names = [part.strip() for part in key.split(",")] if isinstance(key, str) else key
    if mode == "insert":
        if key is not None:
            raise BadCall("key belongs to mode: upsert")
        return []
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise BadCall("mode: upsert needs key: the column, or a list of columns, that tells rows apart")
    return names


def _insert_row(table: str, row: Any, keys: list[str]) -> Statement:
    if not isinstance(row, Mapping) or not row:
        raise BadCall("a row of args must be a mapping from column to value")
    names = [str(name) for name in row]
    columns = ", ".join(quote(name) for name in names)
    places = ", ".join(f"${i}" for i in range(1, len(names) + 1))
    target = ".".join(quote(part) for part in table.split("."))
    text = f"INSERT INTO {target} ({columns}) VALUES ({places}){_on_conflict(names, keys)}"
    return Statement(text, "INSERT", list(row.values()))


def _on_conflict(names: list[str], keys: list[str]) -> str:
    if not keys:
        return ""
    if missing := [key for key in keys if key not in names]:
        raise BadCall(f"args has no {missing[0][:60]!r}, a column of key")
    others = ", ".join(f"{quote(name)} = EXCLUDED.{quote(name)}" for name in names if name not in keys)
    action = f"UPDATE SET {others}" if others else "NOTHING"
    return f" ON CONFLICT ({', '.join(map(quote, keys))}) DO {action}"
