"""What goes to stdout and stderr, all of it: text of others as a terminal may show it, styles that only we can give.

Control sequences of ours are written as marks with a number drawn for this process, which nothing that comes from
elsewhere can hold. Everything else that would be one is shown as an escape."""

import os
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import click

from shared.errors import Signal
from shared.visible import visible

_NUMBER = secrets.token_hex(8)
_MARK = re.compile(f"\ufdd0{_NUMBER}:([0-9;A-Za-z\r]+)\ufdd1")
_SEQUENCE = re.compile(r"\x1b\[([0-9;]*[A-Za-z])")


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
        self.under = under

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError("a screen takes text")
        self._write(ansi(text, colour=self.isatty() and not os.environ.get("NO_COLOR")))
        return len(text)

    def exact(self, text: str) -> None:
        """Into a file or another program as it is."""
        self._write(text if not self.isatty() else visible(text))

    def _write(self, text: str) -> None:
        with _read():
            try:
                self.under.write(text)
            except UnicodeEncodeError:
                encoding = self.under.encoding or "ascii"
                self.under.write(text.encode(encoding, "backslashreplace").decode(encoding))

    def flush(self) -> None:
        with _read():
            self.under.flush()

    def isatty(self) -> bool:
        return self.under.isatty()

    def fileno(self) -> int:
        return self.under.fileno()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:
        return self.under.encoding

    @property
    def errors(self) -> str | None:
        return self.under.errors


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


def under(stream: TextIO) -> TextIO:
    """For who draws by himself: what he is given must be `visible`."""
    return stream.under if isinstance(stream, Screen) else stream


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
