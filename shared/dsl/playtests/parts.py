"""What the parts of a test have in common: lengths of time, counts, lists with a limit."""

from collections.abc import Mapping
from typing import Any

from shared.dsl.model.durations import seconds_of
from shared.dsl.playtests.model import MAX_TIME_S
from shared.dsl.read.reader import Reader, named, short
from shared.dsl.source.nodes import Path


def limited(reader: Reader, listed: list[Any], path: Path, most: int) -> list[Any]:
    if len(listed) > most:
        reader.key(path, "DSL801", f"{len(listed)} entries of {named(path)}, over the limit of {most}",
                   "split the test into several files")
    return listed[:most]


def read_time(reader: Reader, owner: Mapping[str, Any], key: str, path: Path) -> float:
    """A length of virtual time: seconds, or a text such as 90s, 5m or 1h30m; none unless given."""
    if key not in owner:
        return 0.0
    value, at = owner[key], (*path, key)
    found = seconds_of(value) if isinstance(value, str) else value
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= MAX_TIME_S:
        reader.value(at, "DSL204", f"{named(at)} {short(value)} is not a length of time of at most 366 days",
                     f"write {key}: 30s, 5m, 1h30m or a number of seconds")
        return 0.0
    return float(found)
