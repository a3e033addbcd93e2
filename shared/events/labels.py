"""Labels of an execution: short words that people select executions by."""

import re
from collections.abc import Mapping

MAX_LABELS = 32  # of a playbook, and of a request
MAX_VALUE = 128
KEY = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._/-]{0,126}[A-Za-z0-9_])?\Z")
KEY_FIX = "letters, digits and _, between them also . / -, at most 128 characters"
VALUE_FIX = f"at most {MAX_VALUE} characters of one line, without commas and parentheses"
_NOT_IN_VALUES = re.compile(r"[,()\x00-\x1f\x7f]")


def is_key(text: object) -> bool:
    return isinstance(text, str) and KEY.match(text) is not None


def is_value(text: str) -> bool:
    return len(text) <= MAX_VALUE and _NOT_IN_VALUES.search(text) is None


def wrong(labels: Mapping[str, str]) -> str:
    """What is wrong with them; empty if they can be used."""
    if len(labels) > MAX_LABELS:
        return f"{len(labels)} labels, over the limit of {MAX_LABELS}"
    for key, value in labels.items():
        if not is_key(key):
            return f"label {key[:60]!r} is not a name: {KEY_FIX}"
        if not is_value(value):
            return f"the value of label {key!r} cannot be used: {VALUE_FIX}"
    return ""
