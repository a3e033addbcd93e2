"""Sources of playbooks: what two of one differ in, part by part; what one says it is called."""

from collections.abc import Iterator, Mapping
from typing import Any

from shared.dsl.source.load import load

NAMED = {"workflow": ("step", "step"), "workbook": ("task", "name"), "keychain": ("keychain entry", "name")}
LAYOUT = "comments and layout alone"


def states_version(source: bytes) -> bool:
    metadata = _data(source).get("metadata")
    return isinstance(metadata, Mapping) and metadata.get("version") is not None


def path_of(source: bytes) -> str:
    """Where a playbook is registered; empty for any other document."""
    data = _data(source)
    metadata = data.get("metadata")
    if data.get("kind") != "Playbook" or not isinstance(metadata, Mapping):
        return ""
    return str(metadata.get("path") or metadata.get("name") or "")


def changes(old: bytes, new: bytes) -> list[str]:
    """Empty when they are the same bytes."""
    if old == new:
        return []
    before, after = _data(old), _data(new)
    return [line for key in _keys(before, after) for line in _of(key, before, after)] or [LAYOUT]


def _of(key: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """A part of the top level: by the names of what is in it where they have any."""
    if before.get(key) == after.get(key) and (key in before) == (key in after):
        return
    one, other = before.get(key), after.get(key)
    if key in NAMED:
        what, name = NAMED[key]
        named = _named(one, name), _named(other, name)
        if named[0] is not None and named[1] is not None:
            yield from _each(named[0], named[1], f"{what} ")
            if list(named[0]) != list(named[1]) and set(named[0]) == set(named[1]):
                yield f"{key} in another order"
            return
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        yield from _each(one, other, f"{key}.")
    else:
        yield f"{key} {_how(key, before, after)}"


def _each(before: Mapping[str, Any], after: Mapping[str, Any], begin: str) -> Iterator[str]:
    for name in _keys(before, after):
        if name not in before or name not in after or before[name] != after[name]:
            yield f"{begin}{name} {_how(name, before, after)}"


def _how(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    return "added" if name not in before else "removed" if name not in after else "changed"


def _named(found: Any, name: str) -> dict[str, Any] | None:
    """None: not a list of things that each have a name of their own."""
    if found is None:
        return {}
    if not isinstance(found, list) or not all(isinstance(each, Mapping) and name in each for each in found):
        return None
    named = {str(each[name]): each for each in found}
    return named if len(named) == len(found) else None


def _keys(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys([*before, *after]))


def _data(source: bytes) -> Mapping[str, Any]:
    document, _ = load(source)
    return document.data if document is not None and isinstance(document.data, Mapping) else {}
