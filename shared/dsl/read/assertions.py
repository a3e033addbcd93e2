"""What a task says about its call: `assert`, the args it needs and the keys it returns, and `output_select`, the
parts of its result that stay in the log when the result itself is kept by reference."""

import re
from collections.abc import Mapping
from typing import Any

from shared.dsl.read.reader import Reader, kind_of, named, short
from shared.dsl.source.nodes import Path

MAX_ASSERTED = 100
MAX_SELECTED = 50
ASSERT = "write assert: {expects: [name], returns: [name]}"
SELECT = "write output_select: [status, data.items[0].id]"
_PATH = re.compile(r"[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*|\[\d+\])*\Z")


def read_assert(reader: Reader, body: Mapping[str, Any], path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The args the task expects, and the keys it returns."""
    if "assert" not in body:
        return (), ()
    at = (*path, "assert")
    found = reader.mapping(body["assert"], at, ASSERT)
    reader.keys(found, at, ("expects", "returns"), {}, "assert")
    expects, returns = (_names(reader, found[key], (*at, key)) if key in found else ()
                        for key in ("expects", "returns"))
    return expects, returns


def _names(reader: Reader, value: Any, path: Path) -> tuple[str, ...]:
    listed = reader.listing(value, path, ASSERT)
    if len(listed) > MAX_ASSERTED:
        reader.value(path, "DSL801", f"{len(listed)} names, over the limit of {MAX_ASSERTED}", "assert fewer")
    for index, each in enumerate(listed):
        if not isinstance(each, str) or not each.strip():
            reader.value((*path, index), "DSL203", f"{named(path)} lists names, not {kind_of(each)}", ASSERT)
    return tuple(each for each in listed if isinstance(each, str))


def read_select(reader: Reader, body: Mapping[str, Any], path: Path) -> tuple[str, ...]:
    if "output_select" not in body:
        return ()
    at = (*path, "output_select")
    listed = reader.listing(body["output_select"], at, SELECT)
    if len(listed) > MAX_SELECTED:
        reader.value(at, "DSL801", f"{len(listed)} paths, over the limit of {MAX_SELECTED}", "select fewer")
    taken: dict[str, str] = {}
    for index, each in enumerate(listed):
        if not isinstance(each, str) or not _PATH.match(each):
            reader.value((*at, index), "DSL204", f"{short(each)} is not a path into a result", SELECT)
            continue
        other = taken.setdefault(last_key(each), each)
        if other != each:
            reader.value((*at, index), "DSL401", f"{short(each)} and {short(other)} would have one name",
                         "select what is around one of them")
    return tuple(taken.values())


def last_key(path: str) -> str:
    """What a selected part is called: `data.items[0].id` is `id`."""
    return path.rpartition(".")[2].partition("[")[0]
