"""Snowflake's SQL as text: statements told apart, numbered parameters as the `?` its connector binds, names as
Snowflake folds them, and the statements that put many rows into a table."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from shared.tools.base.guard import BadCall
from shared.tools.sql.insert import MODES, rows_of
from shared.tools.sql.rows import key_columns, last_of_each
from shared.tools.sql.text import BINDABLE, MAX_STATEMENTS, Statement, as_text, literal, quote

STATEMENT_PARAMS = 5000  # of one insert or merge; more rows are more statements

# A backslash escapes in a literal, comments do not nest, and `//` begins one unless it is part of an address.
_TOKEN = re.compile(
    r"""
      (?P<quoted> '(?:[^'\\]|\\.|'')*+'? | "(?:[^"]|"")*+"? | \$\$(?:.*?\$\$|.*) )
    | (?P<comment> --[^\n]* | (?<!:)//[^\n]* | /\*(?:.*?\*/|.*) )
    | (?P<param> \$\d+ )
    | (?P<word> [^\W\d][\w$]* )
    | (?P<number> \d\w* )
    | (?P<end> ; )
    """,
    re.VERBOSE | re.DOTALL,
)
_PLAIN = re.compile(r"[^\W\d][\w$]*", re.ASCII)
_QUOTED = re.compile(r'"(?:[^"]|"")+"')


def split(text: str, params: Sequence[Any], in_quotes: frozenset[int] = frozenset()) -> list[Statement]:
    """Without params `$1` is Snowflake's own: a column of a staged file. Of a value `in_quotes` the text is bound."""
    found: list[Statement] = []
    texts: list[str] = []  # between the values: one more than those
    values: list[Any] = []
    verb, copied = "", 0
    for match in _TOKEN.finditer(text):
        match match.lastgroup:
            case "param" if params:
                texts.append(text[copied : match.start()])
                number = int(match.group()[1:])
                values.append(as_text(_param(params, number)) if number in in_quotes else _param(params, number))
                copied = match.end()
            case "word":
                verb = verb or match.group().upper()
            case "end":
                found += _statement([*texts, text[copied : match.start()]], verb, values)
                texts, values, verb, copied = [], [], "", match.end()
    found += _statement([*texts, text[copied:]], verb, values)
    if len(found) > MAX_STATEMENTS:
        raise BadCall(f"a command has at most {MAX_STATEMENTS} statements")
    return found


def _param(params: Sequence[Any], number: int) -> Any:
    if not 1 <= number <= len(params):
        raise BadCall(f"the command uses ${number}, but there are {len(params)} params")
    return params[number - 1]


def _statement(texts: list[str], verb: str, values: list[Any]) -> list[Statement]:
    """None where there is nothing but comments. Where nothing can be bound (CREATE, ALTER …) the values are
    literals; a backslash escapes in those, so the sign of the other dialect's `E''` goes."""
    if not verb:
        return []
    bound = verb in BINDABLE
    places = ["?" if bound else literal(value).removeprefix(" E") for value in values]
    text = "".join(part for pair in zip(texts, [*places, ""], strict=True) for part in pair)
    return [Statement(text.strip(), verb, values if bound else [])]


def name(text: str) -> str:
    """A plain name means what Snowflake makes of it: upper case. One with quotes around it is used as it is."""
    if _QUOTED.fullmatch(text):
        return text
    return quote(text.upper() if _PLAIN.fullmatch(text) else text)


def table_name(table: str) -> str:
    return ".".join(name(part) for part in re.findall(r'"(?:[^"]|"")*"|[^.]+', table))


def insert(table: Any, args: Any, mode: Any = None, key: Any = None) -> list[Statement]:
    """What `table:` with `args:` stands for (FX §6.1, FS §10); rows with the same columns go together."""
    rows = rows_of(table, args)
    if not all(isinstance(row, Mapping) and row for row in rows):
        raise BadCall("a row of args must be a mapping from column to value")
    groups: dict[tuple[str, ...], list[list[Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(map(str, row)), []).append(list(row.values()))
    return [made for columns, group in groups.items() for made in _grouped(table, columns, group, mode, key)]


def _grouped(table: str, columns: Sequence[str], rows: list[list[Any]], mode: Any, key: Any) -> list[Statement]:
    if mode not in (None, *MODES):
        raise BadCall(f"mode must be one of {', '.join(MODES)}")
    if mode != "upsert":
        if key is not None:
            raise BadCall("key belongs to mode: upsert")
        return inserts(table, columns, rows, _json(rows))
    names = key_columns(key, columns, ())
    rows = last_of_each(rows, columns, names)
    return merges(table, columns, names, rows, _json(rows))


def _json(rows: list[list[Any]]) -> list[bool]:
    return [any(isinstance(value, (Mapping, list)) for value in column) for column in zip(*rows, strict=True)]


def inserts(
    table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], json: Sequence[bool]
) -> list[Statement]:
    """`json` says which columns take semi-structured values."""
    names = ", ".join(map(name, columns))
    head = f"INSERT INTO {table_name(table)} ({names}) "
    return [Statement(f"{head}SELECT {_picked(json)} FROM VALUES {places}", "INSERT", values)
            for places, values in _values(rows, json)]


def merges(
    table: str, columns: Sequence[str], key: Sequence[str], rows: Sequence[Sequence[Any]], json: Sequence[bool]
) -> list[Statement]:
    """Rows whose key is there are updated, the others inserted."""
    names, keys = [name(column) for column in columns], [name(column) for column in key]
    picked = ", ".join(f"{pick} AS {column}" for pick, column in zip(_picks(json), names, strict=True))
    same = " AND ".join(f"t.{column} = s.{column}" for column in keys)
    update = ", ".join(f"{column} = s.{column}" for column in names if column not in keys)
    matched = f"WHEN MATCHED THEN UPDATE SET {update} " if update else ""
    missing = f"WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) VALUES ({', '.join('s.' + each for each in names)})"
    return [Statement(f"MERGE INTO {table_name(table)} AS t USING (SELECT {picked} FROM VALUES {places}) AS s "
                      f"ON {same} {matched}{missing}", "MERGE", values)
            for places, values in _values(rows, json)]


def _picks(json: Sequence[bool]) -> list[str]:
    """A literal list of values allows no function: the values are parsed where they are picked."""
    return [f"PARSE_JSON(column{i})" if is_json else f"column{i}" for i, is_json in enumerate(json, 1)]


def _picked(json: Sequence[bool]) -> str:
    return ", ".join(_picks(json))


def _values(rows: Sequence[Sequence[Any]], json: Sequence[bool]) -> list[tuple[str, list[Any]]]:
    size = max(1, STATEMENT_PARAMS // len(json))
    place = f"({', '.join('?' * len(json))})"
    found = []
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        values = [_json_text(value) if is_json else value for row in part
                  for value, is_json in zip(row, json, strict=True)]
        found.append((", ".join([place] * len(part)), values))
    return found


def _json_text(value: Any) -> Any:
    return None if value is None else msgspec.json.encode(value).decode()
