"""Texts of a plan that are more than their characters, and the edition of the text that is being read."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_strict: ContextVar[bool] = ContextVar("strict", default=False)
is_strict = _strict.get


class Text(str):
    """A template of a plan: `written` is what its author wrote, if lowering made this of it, and `strict` says that
    it is read by the first edition of the language (`edition.py`)."""

    __slots__ = ("strict", "written")
    strict: bool
    written: str

    def __new__(cls, text: str, written: str = "", *, strict: bool = False) -> "Text":
        made = super().__new__(cls, text)
        made.written = written or (text.written if isinstance(text, Text) else "")
        made.strict = strict
        return made


class Alias(str):
    """A text that is equal to other texts too. In templates it has the methods of a text."""

    __slots__ = ()


def as_written(value: Any) -> Any:
    """What people are shown of a condition: the text of its author."""
    return value.written or str(value) if isinstance(value, Text) else value


def plain(value: Any) -> Any:
    """A value that is not evaluated, with ordinary texts."""
    if isinstance(value, Text):
        return str(value)
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


@contextmanager
def first_edition(strict: bool) -> Iterator[None]:
    """While a text of the first edition is evaluated, an undefined operand is an error."""
    if not strict:
        yield
        return
    token = _strict.set(True)
    try:
        yield
    finally:
        _strict.reset(token)
