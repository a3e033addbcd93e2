"""Capabilities: what a pool provides and a step requires."""

import re
from typing import Any

from shared.dsl.read.reader import Reader, short
from shared.dsl.source.nodes import Path

MAX_CAPABILITIES = 32
MAX_CAPABILITY = 64
_NAME = re.compile(r"[A-Za-z0-9_-]+\Z")
_FIX = f"letters, digits, _ and -, at most {MAX_CAPABILITY} characters, as in [gpu, eu]"


def read_capabilities(reader: Reader, value: Any, path: Path) -> tuple[str, ...]:
    """Names, each once; sorted, so that their order has no meaning."""
    found = []
    for index, each in enumerate(reader.listing(value, path, "write a list, as in [gpu, eu]")):
        if not isinstance(each, str) or len(each) > MAX_CAPABILITY or not _NAME.match(each):
            reader.value((*path, index), "DSL205", f"a capability cannot be called {short(each)}", _FIX)
        else:
            found.append(each)
    if len(found) > MAX_CAPABILITIES:
        reader.value(path, "DSL801", f"{len(found)} capabilities, over the limit of {MAX_CAPABILITIES}", "name fewer")
    return tuple(sorted(set(found)))
