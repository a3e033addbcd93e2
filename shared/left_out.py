"""What stands in a text where something was left out: whoever reads it later tells it from what was printed."""

import re

SAID = re.compile(r"(\n… \d+ (?:bytes left out …\n|more characters))")


def between(head: str, size: int, tail: str) -> str:
    """`size` bytes stood between the two."""
    return f"{head}\n… {size} bytes left out …\n{tail}"


def after(size: int) -> str:
    """To stand at the end: so many characters came after it."""
    return f"\n… {size} more characters" if size else ""
