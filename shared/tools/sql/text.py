"""SQL as text: several statements of one command told apart, parameters renumbered for each, or
written as literals where a statement accepts none."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from shared.dsl.templates.sql_tokens import comment_end, unquoted
from shared.tools.base.guard import BadCall

TRANSACTION = frozenset({"BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "PREPARE TRANSACTION"})
MAX_STATEMENTS = 1000
INSERT_ROWS = 10_000  # of one task
# Statements that accept parameters; for all others (CREATE, COPY, SET, COMMENT …) a server wants literals.
BINDABLE = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "VALUES", "TABLE", "FROM", "CALL",
                      "EXPLAIN", "EXECUTE", "DECLARE"})

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


class Statement(Struct, frozen=True):
    """`verb` is its first word in upper case; `params` are the values of its own `$1`, `$2` …, of which those with a
    number in `texts` stand where a text does. `said` is how the author wrote each, where that is known."""

    text: str
    verb: str
    params: list[Any]
    texts: frozenset[int] = frozenset()
    said: tuple[str, ...] = ()


class _Scan:
    """One pass over the text. `depth` counts what a semicolon does not end: parentheses and the bodies
    of `BEGIN ATOMIC … END`."""

    def __init__(self, text: str, params: list[Any], texts: frozenset[int], said: tuple[str, ...]) -> None:
        self.text = text
        self.params = params
        self.texts = texts
        self.said = said
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
                    position = comment_end(self.text, position)
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
            texts = frozenset(new for number, new in self.numbers.items() if number in self.texts)
            said = tuple(self.said[number - 1] for number in self.numbers) if self.said else ()
            self.statements.append(Statement(text, self.words[0] if self.words else "", values, texts, said))
        if len(self.statements) > MAX_STATEMENTS:
            raise BadCall(f"a command has at most {MAX_STATEMENTS} statements")


def split(
    text: str, params: list[Any], texts: frozenset[int] = frozenset(), said: tuple[str, ...] = ()
) -> list[Statement]:
    return _Scan(text, params, texts, said).run()


def inlined(statement: Statement, *, escapes: bool = True) -> Statement:
    """The statement as it can be sent: if it accepts no parameters, its values are quoted literals."""
    if not statement.params or statement.verb in BINDABLE:
        return statement
    values = with_texts(statement).params
    made = _replaced(statement.text, lambda number: literal(values[number - 1], escapes=escapes))
    return Statement(made, statement.verb, [])


def with_texts(statement: Statement) -> Statement:
    """The statement with what stands in quotes as a text, for whoever takes the type of a value from the value."""
    if not statement.texts:
        return statement
    values = [as_text(value) if number in statement.texts else value
              for number, value in enumerate(statement.params, 1)]
    return Statement(statement.text, statement.verb, values)


def as_text(value: Any) -> Any:
    """What quotes make of a value: a number is its digits, a list or a mapping is JSON; nothing stays nothing."""
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode().strip('"')


def cast(statement: Statement, types: Mapping[int, str]) -> Statement:
    """The statement with these parameters of these types."""
    made = _replaced(statement.text, lambda number: f"${number}::{types[number]}" if number in types else f"${number}")
    return Statement(made, statement.verb, statement.params, statement.texts, statement.said)


def unshared(statement: Statement) -> Statement:
    """The statement with a parameter of its own at every place."""
    values: list[Any] = []
    texts: set[int] = set()
    said: list[str] = []

    def own(number: int) -> str:
        values.append(statement.params[number - 1])
        said.extend(statement.said[number - 1 : number])
        if number in statement.texts:
            texts.add(len(values))
        return f"${len(values)}"

    made = _replaced(statement.text, own)
    return Statement(made, statement.verb, values, frozenset(texts), tuple(said))


def _replaced(text: str, made: Callable[[int], str]) -> str:
    """The text with something else for each parameter, by its number."""
    parts: list[str] = []
    copied = position = 0
    while match := _TOKEN.search(text, position):
        position = match.end()
        if match.group() == "/*":
            position = comment_end(text, position)
        elif match.lastgroup == "param":
            parts += (text[copied : match.start()], made(int(match.group()[1:])))
            copied = position
    return "".join((*parts, text[copied:]))


def literal(value: Any, *, escapes: bool = True) -> str:
    """A value as SQL writes it; lists and mappings are JSON. A text with a backslash is an `E''` literal, so that
    it means the same whatever the settings of a PostgreSQL server are; `escapes` False: a backslash is no escape."""
    plain = unquoted(value)
    if plain is not None:
        return plain
    match value:
        case str():
            text = value
        case float():
            text = str(value)
        case _:
            text = msgspec.json.encode(value).decode()
    if "\0" in text:
        raise BadCall("a text in SQL cannot hold the character NUL")
    quoted = "'" + text.replace("'", "''") + "'"
    return " E" + quoted.replace("\\", "\\\\") if escapes and "\\" in text else quoted


def quote(name: str) -> str:
    if not name or "\0" in name:
        raise BadCall("a table or column needs a name")
    return '"' + name.replace('"', '""') + '"'
