"""Subjects as the broker sees them: which are allowed, which match a pattern."""

import re
from functools import lru_cache

from shared.errors import Refused

MAX_LINE = 4096  # bytes of a line of the protocol: the server ends a connection that sends a longer one
MAX_SUBJECT = 3840  # leaves room for an inbox and the sizes
MAX_SHOWN = 80
_SUBJECT = re.compile(r"[^\s.\x00-\x1f\x7f\ud800-\udfff]+(\.[^\s.\x00-\x1f\x7f\ud800-\udfff]+)*")


def check_subject(subject: str) -> str:
    """A space or a line break would end the protocol line; one that is too long ends the connection."""
    if len(subject) > MAX_SUBJECT // 4 and len(subject.encode(errors="replace")) > MAX_SUBJECT:
        raise Refused(f"a name of {len(subject)} characters, over the broker's limit: {subject[:MAX_SHOWN]!r}…")
    if not (_is_plain(subject) or _SUBJECT.fullmatch(subject)):
        raise Refused(f"not a subject: {subject[:MAX_SHOWN]!r}")
    return subject


def _is_plain(subject: str) -> bool:
    """Most subjects by far; several times as fast as the expression, which has the last word."""
    if not (subject.isascii() and subject.isprintable()) or " " in subject or ".." in subject:
        return False
    return subject != "" and subject[0] != "." and subject[-1] != "."


@lru_cache(maxsize=65536)
def matches(pattern: str, subject: str) -> bool:
    """`*` is one token, a final `>` is one or more."""
    if pattern in (subject, ">"):
        return True
    want, have = pattern.split("."), subject.split(".")
    if want[-1] == ">":
        want.pop()
        if len(have) <= len(want):
            return False
    elif len(want) != len(have):
        return False
    return all(w in ("*", h) for w, h in zip(want, have, strict=False))


def covers(pattern: str, other: str) -> bool:
    """Whether every subject of the other pattern is one of this."""
    return (pattern[-1] == ">" or other[-1] != ">") and matches(pattern, other)
