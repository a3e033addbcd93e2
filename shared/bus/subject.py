"""Subjects as the broker sees them: which are allowed, which match a pattern."""

import re
from functools import lru_cache

from shared.errors import Refused

_SUBJECT = re.compile(r"[^\s.]+(\.[^\s.]+)*")


def check_subject(subject: str) -> str:
    """A space or a line break would end the protocol line."""
    if not _SUBJECT.fullmatch(subject):
        raise Refused(f"not a subject: {subject!r}")
    return subject


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
