"""Rows on their way from one end of a transfer to the other: which values go into which columns, and where
a statement of the author's takes them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from shared.tools.base.guard import BadCall

NAMES_TOLD = 20  # names of columns a message lists

# Literals, quoted names and comments are passed over: a sign in them is text.
_SIGN = re.compile(
    r"""(?P<passed> '(?:[^']|'')*+'? | "(?:[^"]|"")*+"? | \$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$
                  | --[^\n]* | /\*.*?\*/ )
      | (?P<percent> %% ) | (?P<row> %s ) | (?P<number> \$\d+ )""",
    re.VERBOSE | re.DOTALL,
)


class Batch(Struct, frozen=True):
    fields: list[str]
    rows: Sequence[Sequence[Any]]


class Picker:
    """Which fields of the source go to the target, by `mapping` ({column: field}), or all under their names."""

    def __init__(self, mapping: Mapping[str, str] | None) -> None:
        self._mapping = mapping
        self._places: list[int] | None = None

    def columns(self, fields: Sequence[str]) -> list[str]:
        return list(self._mapping) if self._mapping else list(fields)

    def rows(self, batch: Batch) -> list[list[Any]]:
        if self._mapping is None:
            return [list(row) for row in batch.rows]
        if self._places is None:
            self._places = [_place(batch.fields, field) for field in self._mapping.values()]
        return [[row[place] for place in self._places] for row in batch.rows]


def _place(fields: list[str], name: str) -> int:
    found = match(name, fields)
    if found is None:
        raise BadCall(f"mapping: the source has no field {name!r}; it has {told(fields)}")
    return fields.index(found)


def match(name: str, known: Iterable[str]) -> str | None:
    """The same name, or the only one that differs in case alone: databases fold names in different ways."""
    known = list(known)
    if name in known:
        return name
    alike = [each for each in known if each.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def told(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - NAMES_TOLD} more" if len(names) > NAMES_TOLD else ""
    return ", ".join(names[:NAMES_TOLD]) + more


def target_columns(wanted: Sequence[str], known: Sequence[str]) -> list[str]:
    """The columns as the target's table spells them."""
    found = []
    for name in wanted:
        column = match(name, known)
        if column is None:
            raise BadCall(f"the target's table has no column {name!r}; it has {told(known)}: give target.mapping")
        found.append(column)
    return found


def key_columns(given: Any, columns: Sequence[str], primary: Sequence[str]) -> list[str]:
    """What tells rows apart in an upsert: `key`, or the table's primary key."""
    names = [part.strip() for part in given.split(",")] if isinstance(given, str) else given
    if names is None:
        names = list(primary)
    if not isinstance(names, list) or not names:
        raise BadCall("mode: upsert needs key: the column, or a list of columns, that tells rows apart")
    found = [match(str(name), columns) for name in names]
    if None in found:
        raise BadCall(f"upsert: not all of the key ({told(map(str, names))}) is among the columns that are written")
    return [name for name in found if name is not None]


def last_of_each(rows: list[list[Any]], columns: Sequence[str], key: Sequence[str]) -> list[list[Any]]:
    """A statement may touch a row once: of rows with the same key the last one counts."""
    places = [columns.index(name) for name in key]
    return list({tuple(repr(row[place]) for place in places): row for row in rows}.values())


class Query(Struct, frozen=True):
    """An author's statement for one row. `values` are for its places in order: a number is that of a value of
    the row, anything else (in a tuple) is bound as it is."""

    text: str
    values: list[int | tuple[Any]]

    def row(self, row: Sequence[Any]) -> list[Any]:
        return [row[value] if isinstance(value, int) else value[0] for value in self.values]


def row_query(text: str, params: Sequence[Any], width: int, *, numbered: bool) -> Query:
    """`%s` takes the values of a row in order, `$2` the second one; with params from templates `$1` is
    theirs. The places become `$1`, `$2` … or `?`."""
    values: list[int | tuple[Any]] = []
    rows = 0

    def place(found: re.Match[str]) -> str:
        nonlocal rows
        match found.lastgroup:
            case "percent":
                return "%"
            case "row":
                values.append(rows)
                rows += 1
            case "number":
                values.append(_numbered(int(found.group()[1:]), params, width))
            case _:
                return found.group()
        return f"${len(values)}" if numbered else "?"

    made = _SIGN.sub(place, text)
    if rows not in (0, width):
        raise BadCall(f"target.query takes {rows} values a row, and the source gives {width}")
    if not any(isinstance(value, int) for value in values):
        raise BadCall("target.query takes no values: write %s where each of a row goes")
    return Query(made, values)


def _numbered(number: int, params: Sequence[Any], width: int) -> int | tuple[Any]:
    if params:
        return (params[number - 1],)
    if not 1 <= number <= width:
        raise BadCall(f"target.query uses ${number}, and the source gives {width} values a row")
    return number - 1
