"""Writes a SQL text whose outputs are bound: what each output becomes depends on where it is.

- in the open it is `$1`, `$2`, …; it may not touch a word, or `$1` and `5` would become `$15`; the same expression
  with the same value and cast is the same parameter, or `GROUP BY x / {{ s }}` were not `SELECT x / {{ s }}`;
- a literal with outputs in it, `'{{ x }}'` or `'a {{ x }} b'`, is one parameter: its text, rendered;
- where SQL accepts only a name (`INTO {{ x }}`, `public.{{ x }}`, `"{{ x }}"`) it is a name, quoted as
  the filter `identifier` quotes it;
- in the program of a `DO $$ … $$`, where nothing can be bound, it is a literal: all of the above within the program,
  with values between dollar quotes whose tag they do not contain, and the program itself between such quotes too;
- in any other dollar-quoted text that it does not fill it is refused;
- in a comment it is dropped.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from shared.dsl.templates.budget import Limit
from shared.dsl.templates.compiler import Bound
from shared.dsl.templates.filters import identifier
from shared.dsl.templates.result_view import unwrap
from shared.dsl.templates.sql_tokens import MARK, Token, tokens, unquoted
from shared.dsl.templates.values import plain, require, text

TOKEN = 12  # units
LOOKED_AT = 6  # tokens behind an output, to see whether it is cast
MAX_PARAMS = 32_767  # as many as Postgres accepts with one statement

# Words only a name can follow, whatever the statement.
_BEFORE_NAME = frozenset(("INTO", "UPDATE", "JOIN", "TABLE", "INDEX", "CONCURRENTLY", "SCHEMA", "VIEW", "DATABASE",
                          "SEQUENCE", "COLUMN", "CONSTRAINT", "TRUNCATE"))
# `FROM` leads to a table in these, and to a value in `EXTRACT(year FROM …)` or `COPY t FROM …`.
_QUERIES = frozenset(("SELECT", "WITH", "DELETE", "UPDATE", "INSERT"))
_STATEMENTS = _QUERIES | {"CREATE", "EXPLAIN", "MERGE", "FROM", "DESCRIBE", "SUMMARIZE"}
# `interval '3 days'` is a constant with its type; a parameter needs a cast.
_TYPES = frozenset(("DATE", "TIME", "TIMETZ", "TIMESTAMP", "TIMESTAMPTZ", "INTERVAL", "UUID", "JSON", "JSONB",
                    "NUMERIC", "INET"))
_UNITS = frozenset(("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"))
_TOUCHES = "an output touches a word or another output: build the whole in one expression"
_PROGRAM = "an output cannot stand in a dollar-quoted text: nothing can be bound there"
_NO_BODY = "an output in a dollar-quoted text that does not end: close its quote"
# A statement begins after these in a program.
_BLOCKS = frozenset(("BEGIN", "THEN", "ELSE", "LOOP", "DECLARE"))
_CASTS = ("CAST", "TRY_CAST")
_TAGS = re.compile(r"\$v_*+")
_EXECUTED = "an output in the text of EXECUTE would be run as SQL: pass it with USING, or join quote_literal({{ x }})"
_SHARED = (str, int, float, bool, type(None))


class Named(NamedTuple):
    """An output, by its number, that was written as a name."""

    output: int
    exact: bool


class Writer:
    """`spend` is called with the units of every token."""

    def __init__(self, outputs: list[Bound], spend: Callable[[int], None], *, program: bool = False) -> None:
        """`program`: the text is that of a `DO`, in which values are literals."""
        self._spend, self._program = spend, program
        self._known: dict[tuple[Any, ...], int] = {}  # parameters by the expressions they stand for
        self._cast = ""             # the type that is said behind the output at hand
        self.made: list[str] = []
        self.params: list[Any] = []
        self.texts: set[int] = set()  # numbers of parameters in quotes that hold no text
        self.made_of: list[tuple[int, ...]] = []  # the expressions of each parameter
        self.named: list[Named] = []
        self.numbered = False
        self.at = -1                # the current output
        self._outputs = outputs
        self._last = ["", "", ""]   # significant tokens before this one, the latest first, words in upper case
        self._frames = [""]         # first word of the statement and of every parenthesis that is open
        self._edge = ""             # the kind of the token right before: "" after space, "param" after a parameter
        self._word_at = 0           # where in `made` the last word is
        self._interval = False      # the last parameter is an interval's constant, a unit may follow

    def write(self, source: str) -> None:
        found = list(tokens(source))
        for index, token in enumerate(found):
            self._spend(TOKEN)
            if MARK in token.text:
                within = self._last[0] == "(" and self._last[1] in _CASTS
                self._cast = _cast_after(found[index + 1 : index + 1 + LOOKED_AT], within)
            match token.kind:
                case "comment" | "space":
                    self._skip(token)
                case "word":
                    self._word(token)
                case "escaped" | "literal" | "name" | "dollar" if MARK in token.text:
                    self._quoted(token)
                case _:
                    self._plain(token)

    def _take(self) -> Bound:
        self.at += 1
        return self._outputs[self.at]

    def _skip(self, token: Token) -> None:
        for _ in range(token.text.count(MARK)):
            self._take()
        self.made.append(token.text.replace(MARK, ""))
        self._edge = ""

    def _plain(self, token: Token) -> None:
        if self._edge == "param" and token.kind not in ("sign", "literal"):
            raise TypeError(_TOUCHES)
        if self._edge == "named" and token.kind == "name":
            raise TypeError(_TOUCHES)
        self.numbered |= token.kind == "number"
        match token.text:
            case "(":
                self._frames.append("")
            case ")" if len(self._frames) > 1:
                self._frames.pop()
            case ";":
                self._frames = [""]
        self._put(token.text, token.text if token.kind == "sign" else f"<{token.kind}>", token.kind)

    def _put(self, made: str, meaning: str, edge: str) -> None:
        self.made.append(made)
        self._last = [meaning, *self._last[:2]]
        self._edge = edge
        self._interval = False

    # -- words and outputs in the open

    def _word(self, token: Token) -> None:
        if MARK in token.text:
            return self._open(token.text)
        if self._edge == "param":
            raise TypeError(_TOUCHES)
        word = token.text.upper()
        if self._interval and word in _UNITS:  # interval '3' day
            self.params[-1] = f"{text(self.params[-1])} {word}"
            self._interval = False
            return None
        if self._program and word in _BLOCKS:
            self._frames = [""]
        elif not self._frames[-1]:
            self._frames[-1] = word
        self._word_at = len(self.made)
        return self._put(token.text, word, "word")

    def _open(self, source: str) -> None:
        outputs = [self._take() for _ in range(source.count(MARK))]
        alone = source == MARK
        if self._edge in ("param", "word") or (not alone and any(output.is_name for output in outputs)):
            raise TypeError(_TOUCHES)
        if alone and outputs[0].is_name:
            return self._name(unwrap(require(outputs[0].value)))
        if self._wants_name():
            self._note(len(outputs), alone)
            # the server folds what is not quoted; the value keeps its case, as with the filter
            made = unwrap(require(outputs[0].value)) if alone else _joined(source.lower(), outputs)
            return self._name(identifier(made))
        if not alone:
            raise TypeError(_TOUCHES)
        return self._put(self._bind(plain(outputs[0].value), outputs), "<value>", "param")

    def _name(self, made: str) -> None:
        if self._edge == "name":
            raise TypeError(_TOUCHES)
        self._put(made, "<name>", "named")

    def _note(self, count: int, exact: bool) -> None:
        self.named += [Named(self.at - i, exact) for i in reversed(range(count))]

    def _wants_name(self) -> bool:
        last, before, first = self._last
        if last == ".":
            return before == "<name>" or before[:1].isalpha() or before[:1] == "_"
        if last == "EXISTS":
            return before == "IF" or (before, first) == ("NOT", "IF")
        return last in _BEFORE_NAME or self._wants_table()

    def _wants_table(self) -> bool:
        last, before, _ = self._last
        if last == "FROM" and before != "DISTINCT":
            return self._frames[-1] in (_QUERIES if len(self._frames) > 1 else _STATEMENTS)
        return last == "JOIN"

    # -- outputs in quotes

    def _quoted(self, token: Token) -> None:
        outputs = [self._take() for _ in range(token.text.count(MARK))]
        if self._edge in ("param", "word"):
            raise TypeError(_TOUCHES)
        exact = token.body == MARK
        match token.kind:
            case "name":
                self._quoted_name(token, outputs)
            case "dollar" if self._frames[0] == "DO" and not exact:
                self._do(token, outputs)
            case "dollar":
                if not exact or outputs[0].is_name:
                    raise TypeError(_PROGRAM)
                self._value(plain(outputs[0].value), outputs)
            case _:
                self._literal(token, outputs)

    def _quoted_name(self, token: Token, outputs: list[Bound]) -> None:
        if token.body == MARK and outputs[0].is_name:
            return self._name(unwrap(require(outputs[0].value)))
        if token.body is None or any(output.is_name for output in outputs):
            raise TypeError('an output in " quotes: write {{ … | identifier }} alone for a name')
        self._note(len(outputs), token.body == MARK)
        return self._name(_whole_name(_joined(token.body.replace('""', '"'), outputs)))

    def _literal(self, token: Token, outputs: list[Bound]) -> None:
        if any(output.is_name for output in outputs):
            raise TypeError("an output in ' quotes: an identifier is not a text")
        if token.body is None:
            raise TypeError("an output in a literal that does not end: close its quote")
        if token.kind == "escaped" and "\\" in token.body:
            raise TypeError("an output in a literal with escapes: join its parts, as in E'\\n' || {{ x }}")
        if self._program and self._last[0] == "EXECUTE":
            raise TypeError(_EXECUTED)
        outputs = [output.undoubled() for output in outputs]
        if self._wants_table():  # DuckDB reads files by their name, which is no value either
            self._note(len(outputs), token.body == MARK)
            return self._name(_whole_name(_joined(token.body.replace("''", "'"), outputs)))
        if token.body == MARK:
            return self._value(plain(outputs[0].value), outputs)
        return self._value(_joined(token.body.replace("''", "'"), outputs), outputs, token.body)

    def _value(self, value: Any, outputs: list[Bound], around: str = "") -> None:
        kind = self._last[0]
        if kind not in _TYPES:
            return self._put(self._bind(value, outputs, around or "''"), "<value>", "param")
        del self.made[self._word_at :]
        if kind == "INTERVAL":  # a unit that follows becomes part of the value
            outputs = []
        self._put(f"CAST({self._bind(value, outputs, around or kind)} AS {kind.lower()})", "<value>", "value")
        self._interval = kind == "INTERVAL" and not self._program
        return None

    def _bind(self, value: Any, outputs: list[Bound], around: str = "") -> str:
        """`outputs` make the value, with the text `around` them: nothing for one in the open."""
        if self._program:
            return literal(value)
        key = (around, self._cast, *(output.expression for output in outputs))
        shared = bool(outputs) and all(output.expression >= 0 for output in outputs)
        if shared and (number := self._known.get(key, 0)) and _is_same(self.params[number - 1], value):
            return f"${number}"
        self.params.append(value)
        self.made_of.append(tuple(output.expression for output in outputs))
        if len(self.params) > MAX_PARAMS:
            raise Limit(f"too many parameters (limit {MAX_PARAMS})")
        if shared:
            self._known[key] = len(self.params)
        if around and not isinstance(value, str):
            self.texts.add(len(self.params))
        return f"${len(self.params)}"

    def _do(self, token: Token, outputs: list[Bound]) -> None:
        """The program of a `DO`, under a tag that is nowhere in it once its outputs are."""
        if token.body is None:
            raise TypeError(_NO_BODY)
        writer = Writer(outputs, self._spend, program=True)
        try:
            writer.write(token.body)
        finally:
            self.at += writer.at + 1 - len(outputs)  # the one at fault, if one is
        self.named += [named._replace(output=named.output + self.at + 1 - len(outputs)) for named in writer.named]
        self._put(dollar_quoted("".join(writer.made)), "<dollar>", "dollar")


def _cast_after(following: list[Token], within: bool) -> str:
    """`int` of `{{ x }}::int` and of `CAST({{ x }} AS int)`: at a place with a type of its own a parameter is another
    one than at a place with none."""
    words = [token.text.upper() for token in following if token.kind not in ("space", "comment")]
    if words[:2] == [":", ":"]:
        return "".join(words[2:3])
    return "".join(words[1:2]) if within and words[:1] == ["AS"] else ""


def _is_same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and isinstance(one, _SHARED) and one == other)


def literal(value: Any) -> str:
    """A value as PostgreSQL's programs write it."""
    plain = unquoted(value)
    if plain is not None:
        return plain
    if isinstance(value, str | float):
        return dollar_quoted(text(value))
    return f"{dollar_quoted(msgspec.json.encode(value).decode())}::jsonb"


def dollar_quoted(made: str) -> str:
    """Between quotes that end nowhere before their end, whatever the text holds."""
    if "\0" in made:
        raise TypeError("a text in SQL cannot hold the character NUL")
    tag = max((found.group()[1:] + "_" for found in _TAGS.finditer(made)), key=len, default="v")
    return f"${tag}${made}${tag}$"


def _joined(source: str, outputs: list[Bound]) -> str:
    """The text with its outputs in their places."""
    parts = source.split(MARK)
    made = [parts[0]]
    for output, part in zip(outputs, parts[1:], strict=True):
        made += (text(output.value), part)
    return "".join(made)


def _whole_name(name: str) -> str:
    """One name, dots and all, because its author put it in quotes."""
    if not name or "\0" in name:
        raise TypeError("a name in quotes is a non-empty text")
    return '"' + name.replace('"', '""') + '"'
