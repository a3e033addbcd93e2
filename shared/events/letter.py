"""What is written about a message that no service could use: where it is, why, and how it begins.

Whatever the message holds, a letter is small and its text is printable: nothing in it can keep it from being stored,
or do something to the terminal it is shown on."""

import hashlib
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from shared.events.bounds import (
    MAX_LETTER_BYTES,
    MAX_LETTER_EXCERPT,
    MAX_LETTER_HEADER,
    MAX_LETTER_HEADERS,
    MAX_LETTER_NAME,
    MAX_LETTER_PLACE,
    MAX_LETTER_REASON,
)

LINES = "\n\t"  # they stay in an excerpt: a body of several lines is read as it is


class Note(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """`place` is `<stream>/<sequence>`, or names what has none. `size` and `digest` (BLAKE2b) are those of the
    whole message; with `whole`, excerpt and headers are the message as it was. `name` and `at` are of a trigger or a
    schedule."""

    place: str = ""
    reason: str = ""
    subject: str = ""
    size: int = 0
    digest: str = ""
    excerpt: str = ""
    whole: bool = False
    headers: dict[str, str] = {}
    name: str = ""
    at: int = 0


_decoder = msgspec.json.Decoder(Note)


def write(
    place: str, reason: str, data: bytes = b"", *, subject: str = "", headers: Mapping[str, str] | None = None,
    name: str = "", at: int = 0,
) -> bytes:
    excerpt = printable(data[:MAX_LETTER_EXCERPT].decode(errors="backslashreplace"), LINES)
    kept = _headers(headers or {})
    whole = excerpt.encode() == data and kept == (headers or {})
    note = Note(
        place=short(place, MAX_LETTER_PLACE), reason=short(reason, MAX_LETTER_REASON),
        subject=short(subject, MAX_LETTER_PLACE), size=len(data), digest=digest(data), excerpt=excerpt, whole=whole,
        headers=kept, name=short(name, MAX_LETTER_NAME), at=at,
    )
    found = msgspec.json.encode(note)
    assert len(found) <= MAX_LETTER_BYTES, "the bounds of a letter's parts make it smaller"
    return found


def read(data: bytes) -> Note | None:
    """None: it was not written here."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def printable(text: str, kept: str = "") -> str:
    """What is not, as Python would write it: `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in kept else each.encode("unicode_escape").decode() for each in text
    )


def short(text: str, most: int) -> str:
    """Printable, at most so many characters, and the end says that there was more."""
    shown = printable(text[: most + 1])
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def _headers(headers: Mapping[str, str]) -> dict[str, str]:
    first = list(headers.items())[:MAX_LETTER_HEADERS]
    return {short(name, MAX_LETTER_NAME): short(value, MAX_LETTER_HEADER) for name, value in first}
