"""Text of others as a terminal may show it: nothing in it moves the cursor, writes to a clipboard or turns the
direction of what is read. The escapes are those of JSON, in which they mean what was there."""

import re
from typing import Any

# C0 and DEL, C1, what has no width (soft hyphens, joiners), marks and overrides of direction, line separators, the
# byte order mark, halves of characters.
_RANGES = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f"
)
_HOSTILE = re.compile(f"[{_RANGES}]")
_IN_A_LINE = re.compile(rf"[\t\n{_RANGES}]")
_NAMES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str) -> str:
    """Its lines and tabs stay."""
    return text if text.isprintable() else _HOSTILE.sub(_escape, text.replace("\r\n", "\n"))


def line(text: str) -> str:
    """In a table, or in a line of which it is a part, a line break would begin a line that is not ours."""
    return text if text.isprintable() else _IN_A_LINE.sub(_escape, text)


def is_hostile(text: str) -> bool:
    return _HOSTILE.search(text) is not None


def fields(_logger: Any, _method: str, event: Any) -> Any:
    """For structlog: the values of an event."""
    return {line(str(key)): value if isinstance(value, (bool, int, float, type(None))) else visible(str(value))
            for key, value in event.items()}


def _escape(found: "re.Match[str]") -> str:
    character = found[0]
    if ord(character) > 0xFFFF:
        high, low = divmod(ord(character) - 0x10000, 0x400)
        return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
    return _NAMES.get(character) or f"\\u{ord(character):04x}"
