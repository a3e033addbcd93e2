"""The tokens of a SQL text in which MARK stands for each output of a template."""

import math
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

MARK = "\0"
CACHED = 256         # texts whose tokens are kept
CACHED_CHARS = 4096  # of the longest

# A quote that is never closed runs to the end of the text: the server says what is wrong with it.
_TOKEN = re.compile(
    r"""
      (?P<comment> --[^\n\r]*+ | /\* )
    | (?P<escaped> [eE]' (?P<ebody>(?:[^'\\]|\\.|'')*+) (?P<eclose>')? )
    | (?P<literal> [nN]?' (?P<body>(?:[^']|'')*+) (?P<close>')? )
    | (?P<name> " (?P<nbody>(?:[^"]|"")*+) (?P<nclose>")? )
    | (?P<dollar> \$(?P<tag>(?:[^\W\d]\w*)?)\$ (?: (?P<dbody>.*?) (?P<dclose>\$(?P=tag)\$) | .* ) )
    | (?P<number> \$\d++ (?![\w$\0]) )
    | (?P<word> (?: [\w$\0] | [^\x00-\x7f] )++ )
    | (?P<space> \s++ )
    | (?P<sign> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARK = re.compile(r"/\*|\*/")
_BODIES = {"escaped": ("ebody", "eclose"), "literal": ("body", "close"), "name": ("nbody", "nclose"),
           "dollar": ("dbody", "dclose")}


class Token(NamedTuple):
    """`kind` is a group of the pattern above. `body` is what is between quotes, None when they are
    not closed."""

    kind: str
    text: str
    body: str | None = None


def tokens(text: str) -> Iterable[Token]:
    """A task's text is the same at every call unless it has blocks, so short ones are remembered."""
    return _remembered(text) if len(text) <= CACHED_CHARS else _scan(text)


@lru_cache(maxsize=CACHED)
def _remembered(text: str) -> tuple[Token, ...]:
    return tuple(_scan(text))


def _scan(text: str) -> Iterator[Token]:
    position = 0
    while found := _TOKEN.match(text, position):
        kind = found.lastgroup or ""
        position = found.end() if found.group() != "/*" else comment_end(text, found.end())
        body, close = _BODIES.get(kind, ("", ""))
        yield Token(kind, text[found.start() : position], found[body] if close and found[close] else None)


def comment_end(text: str, position: int) -> int:
    """Block comments nest."""
    depth = 1
    while depth and (mark := _COMMENT_MARK.search(text, position)):
        depth += 1 if mark.group() == "/*" else -1
        position = mark.end()
    return len(text) if depth else position


def unquoted(value: Any) -> str | None:
    """A value that SQL writes without quotes; None where there is more to it."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | float() if math.isfinite(value):
            return str(value) if value >= 0 else f"({value})"  # two signs in a row would begin a comment
    return None
