"""Two values side by side: what differs, and where."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct


class Change(Struct, frozen=True):
    """`path` leads into the value: `a.b[2]`; empty for the value itself. A side that has nothing there says so by
    `in_a` and `in_b`."""

    path: str
    a: Any = None
    b: Any = None
    in_a: bool = True
    in_b: bool = True


def changes(a: Any, b: Any, path: str = "") -> Iterator[Change]:
    """Mappings by key and lists by place, down to what is not equal."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in [*a, *(key for key in b if key not in a)]:
            place = f"{path}.{key}" if path else str(key)
            yield from _at(place, a.get(key), b.get(key), key in a, key in b)
    elif isinstance(a, list) and isinstance(b, list):
        for at in range(max(len(a), len(b))):
            in_a, in_b = at < len(a), at < len(b)
            yield from _at(f"{path}[{at}]", a[at] if in_a else None, b[at] if in_b else None, in_a, in_b)
    elif a != b or (type(a) is not type(b) and bool in (type(a), type(b))):
        yield Change(path, a, b)


def _at(path: str, a: Any, b: Any, in_a: bool, in_b: bool) -> Iterator[Change]:
    if in_a and in_b:
        yield from changes(a, b, path)
    else:
        yield Change(path, a, b, in_a, in_b)


def plain(value: Any) -> Any:
    """The value without what differs by the execution it belongs to: a reference is named after its own."""
    if isinstance(value, dict):
        if _is_reference(value):
            return {name: part for name, part in value.items() if name != "key"}
        return {name: plain(part) for name, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list) else value


def _is_reference(value: dict[str, Any]) -> bool:
    return {"store", "key", "checksum", "size"} <= value.keys() <= {"store", "key", "checksum", "size", "schema_hint"}
