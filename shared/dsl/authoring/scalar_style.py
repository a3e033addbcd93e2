"""Scalars as YAML text that is read back as the same value, by this loader and by any other."""

import re
from typing import Any

from shared.dsl.source.scalars import resolve

_PLAIN = re.compile(r"[^\W\d][\w./-]*(?: [\w./-]+)*\Z")
_PROSE = re.compile(r"[^\W\d][\w./,;()!+='-]*(?: [\w./,;()!+='-]+)*\Z")  # outside brackets commas are text
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def scalar(value: Any, *, flow: bool = False) -> str:
    """One line. `flow`: between brackets."""
    if isinstance(value, str):
        return _text(value, flow=flow)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value)
    return text.replace("e", ".0e") if isinstance(value, float) and "e" in text and "." not in text else text


def literal(text: str, indent: int) -> list[str]:
    """The text as a literal block whose lines are at `indent`; nothing if it cannot be one.

    Several line ends behind the text are none: blank lines that part steps would add to them."""
    body = text[:-1] if text.endswith("\n") else text
    if "\n" not in text or not body.strip() or body.endswith("\n") or not _shows(text):
        return []
    sign = "|" + ("2" if text[0].isspace() else "") + ("" if text.endswith("\n") else "-")
    return [sign, *(" " * indent + line if line else "" for line in body.split("\n"))]


def _shows(text: str) -> bool:
    return all(sign.isprintable() or sign in "\n\t" for sign in text)


def _text(text: str, *, flow: bool) -> str:
    if (_PLAIN if flow else _PROSE).match(text) and text.isprintable() and resolve(text.lower()) == text.lower():
        return text
    if text.isprintable() and ('"' in text or "\\" in text):
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(_escaped(sign) for sign in text) + '"'


def _escaped(sign: str) -> str:
    if sign in _ESCAPES:
        return _ESCAPES[sign]
    if sign.isprintable():
        return sign
    code = ord(sign)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
