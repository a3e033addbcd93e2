"""What goes to stdout and stderr, all of it: text of others as a terminal may show it, styles that only we can give.

Control sequences of ours are written as marks with a number drawn for this process, which nothing that comes from
elsewhere can hold. Everything else that would be one is shown as an escape."""

import os
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

import click

from shared.errors import Signal
from shared.visible import visible

_NUMBER = secrets.token_hex(8)
_MARK = re.compile(f"\ufdd0{_NUMBER}:([0-9;A-Za-z\r]+)\ufdd1")
_SEQUENCE = re.compile(r"\x1b\[([0-9;]*[A-Za-z])")


PLAIN = {
    "✓": "+", "✗": "x", "▶": ">", "⏸": "=", "…": "...", "→": "->", "━": "=", "─": "-", "█": "#", "·": ".", "–": "-",
    "×": "x", "│": "|", "├": "|", "└": "`", "╰": "`",
}  # our own signs, on a terminal that has no such character


class ReaderGone(Signal):
    """Who reads what we print has all that he wants, as `| head -2` does. No OSError, which click would make a failure
    of."""


@contextmanager
def _read() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise ReaderGone from None


class Screen:
    """A stream for text. It has no `buffer`: nothing goes around it."""

    def __init__(self, under: TextIO) -> None:
        self._stream, self.under = under, Plain(under)

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError("a screen takes text")
        self.under.write(ansi(text, colour=self.isatty() and not os.environ.get("NO_COLOR")))
        return len(text)

    def exact(self, text: str) -> None:
        """Into a file or another program as it is."""
        self.under.exact(text if not self.isatty() else visible(text))

    def flush(self) -> None:
        with _read():
            self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:
        return self._stream.encoding

    @property
    def errors(self) -> str | None:
        return self._stream.errors


class Plain:
    """The stream below, which takes any text: a sign of ours that it has no character for is another one, and what is
    someone else's is an escape."""

    def __init__(self, under: TextIO) -> None:
        self._under = under
        self._signs = str.maketrans({sign: plain for sign, plain in PLAIN.items() if not self.has(sign)})

    def has(self, text: str) -> bool:
        """A stream without an encoding keeps text as it is."""
        try:
            text.encode(self._under.encoding or "utf-8", "strict")
        except (UnicodeEncodeError, LookupError):
            return False
        return True

    def write(self, text: str) -> int:
        return self.exact(text.translate(self._signs) if self._signs else text)

    def exact(self, text: str) -> int:
        with _read():
            try:
                return self._under.write(text)
            except UnicodeEncodeError:
                encoding = self._under.encoding or "ascii"
                return self._under.write(text.encode(encoding, "backslashreplace").decode(encoding))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._under, name)


@contextmanager
def installed() -> Iterator[None]:
    before = sys.stdout, sys.stderr
    out, err = (each if isinstance(each, Screen) else Screen(each) for each in before)
    sys.stdout, sys.stderr = out, err
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def style(text: str, **look: Any) -> str:
    """As `click.style`, for a part of a line."""
    styled = click.style(visible(text), **look)
    return _marked(styled) if isinstance(sys.stdout, Screen) else styled


def control(sequence: str) -> str:
    """A control sequence of ours: `\\r` and `ESC [ …`."""
    return _marked(sequence) if isinstance(sys.stdout, Screen) else ""


def exact(text: str, *, nl: bool = True) -> None:
    """A value or file that is text: on a terminal as it may be shown, elsewhere as it is."""
    if isinstance(sys.stdout, Screen):
        sys.stdout.exact(text + "\n" * nl)
    else:
        click.echo(text, nl=nl)


def takes_unicode() -> bool:
    """Whether stdout has a character for everything. Where it has not, JSON and YAML write escapes, which mean the
    same; what is text for people gets signs that it has."""
    return not isinstance(sys.stdout, Screen) or sys.stdout.under.has("\U0001f600")


def under(stream: TextIO) -> TextIO:
    """For who draws by himself: what he is given must be `visible`."""
    return cast(TextIO, stream.under) if isinstance(stream, Screen) else stream


def ansi(text: str, *, colour: bool = True) -> str:
    """The text with our sequences in it, or without any. No tab is ours: one of others would move a column."""
    parts = _MARK.split(text)
    for at, part in enumerate(parts):
        parts[at] = visible(part).replace("\t", "\\t") if at % 2 == 0 else _sequence(part) if colour else ""
    return "".join(parts)


def _sequence(mark: str) -> str:
    return "\r" if mark == "\r" else f"\x1b[{mark}"


def _marked(text: str) -> str:
    marked = _SEQUENCE.sub(lambda found: f"\ufdd0{_NUMBER}:{found[1]}\ufdd1", text)
    return marked.replace("\r", f"\ufdd0{_NUMBER}:\r\ufdd1")
