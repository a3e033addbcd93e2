"""SQL as text: several statements of one command told apart, parameters numbered anew for each, and the
insert that `table:` with `args:` stands for (FX §6.1, FS §10)."""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from shared.tools.running import BadCall

TRANSACTION = frozenset({"BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "PREPARE TRANSACTION"})
MAX_STATEMENTS = 1000
INSERT_ROWS = 10_000

# A quote that is never closed runs to the end of the text: the server says what is wrong with it.
_TOKEN = re.compile(
    r"""
      (?P<quoted> [eE]'(?:[^'\\]|\\.|'')*+'? | '(?:[^']|'')*+'? | "(?:[^"]|"")*+"?
                | \$(?P<tag>(?:[^\W\d]\w*)?)\$ (?:.*?\$(?P=tag)\$ | .*) )
    | (?P<comment> --[^\n]* | /\* )
    | (?P<param> \$\d+ )
    | (?P<word> [^\W\d][\w$]* )
    | (?P<number> \d\w* )
    | (?P<mark> [;()] )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARK = re.compile(r"/\*|\*/")


class Statement(Struct, frozen=True):
    """`verb` is its first word in upper case; `params` are the values of its own `$1`, `$2` …"""

    text: str
    verb: str
    params: list[Any]


class _Scan:
    """One pass over the text. `depth` counts what a semicolon does not end: parentheses and the bodies
    of `BEGIN ATOMIC … END`."""

    def __init__(self, text: str, params: list[Any]) -> None:
        self.text = text
        self.params = params
        self.statements: list[Statement] = []
        self._reset(0)

    def _reset(self, start: int) -> None:
        self.parts: list[str] = []
        self.copied = start
        self.words: list[str] = []
        self.numbers: dict[int, int] = {}
        self.parens = 0
        self.blocks = 0

    def run(self) -> list[Statement]:
        position = 0
        while match := _TOKEN.search(self.text, position):
            position = match.end()
            match match.lastgroup:
                case "comment" if match.group() == "/*":
                    position = _comment_end(self.text, position)
                case "param":
                    self._param(match)
                case "word":
                    self._word(match.group().upper())
                case "mark":
                    self._mark(match)
        self._finish(len(self.text))
        return self.statements

    def _param(self, match: re.Match[str]) -> None:
        number = int(match.group()[1:])
        if not 1 <= number <= len(self.params):
            raise BadCall(f"the command uses ${number}, but there are {len(self.params)} params")
        new = self.numbers.setdefault(number, len(self.numbers) + 1)
        self.parts += (self.text[self.copied : match.start()], f"${new}")
        self.copied = match.end()

    def _word(self, word: str) -> None:
        if self.words[:1] == ["CREATE"]:
            if self.blocks and word in ("CASE", "BEGIN"):
                self.blocks += 1
            elif self.blocks and word == "END":
                self.blocks -= 1
            elif word == "ATOMIC" and self.words[-1] == "BEGIN":
                self.blocks = 1
        self.words = [*self.words[:1], word]

    def _mark(self, match: re.Match[str]) -> None:
        if match.group() == "(":
            self.parens += 1
        elif match.group() == ")":
            self.parens -= 1
        elif self.parens <= 0 and not self.blocks:
            self._finish(match.start())
            self._reset(match.end())

    def _finish(self, end: int) -> None:
        text = "".join((*self.parts, self.text[self.copied : end])).strip()
        if self.words or self.parts:
            values = [self.params[number - 1] for number in self.numbers]
            self.statements.append(Statement(text, self.words[0] if self.words else "", values))
        if len(self.statements) > MAX_STATEMENTS:
            raise BadCall(f"a command has at most {MAX_STATEMENTS} statements")


def _comment_end(text: str, position: int) -> int:
    """Block comments nest."""
    depth = 1
    while depth and (mark := _COMMENT_MARK.search(text, position)):
        depth += 1 if mark.group() == "/*" else -1
        position = mark.end()
    return len(text) if depth else position


def split(text: str, params: list[Any]) -> list[Statement]:
    return _Scan(text, params).run()


def insert(table: Any, args: Any) -> list[Statement]:
    """One row per mapping; the columns are its keys."""
    rows = [args] if isinstance(args, Mapping) else args
    if not isinstance(table, str) or not isinstance(rows, list) or not rows:
        raise BadCall("table needs args: a mapping from column to value, or a list of such rows")
    if len(rows) > INSERT_ROWS:
        raise BadCall(f"one task inserts at most {INSERT_ROWS} rows")
    return [_insert_row(table, row) for row in rows]


def _insert_row(table: str, row: Any) -> Statement:
    if not isinstance(row, Mapping) or not row:
        raise BadCall("a row of args must be a mapping from column to value")
    columns = ", ".join(quote(str(name)) for name in row)
    places = ", ".join(f"${i}" for i in range(1, len(row) + 1))
    target = ".".join(quote(part) for part in table.split("."))
    return Statement(f"INSERT INTO {target} ({columns}) VALUES ({places})", "INSERT", list(row.values()))


def quote(name: str) -> str:
    if not name or "\0" in name:
        raise BadCall("a table or column needs a name")
    return '"' + name.replace('"', '""') + '"'
