"""Server-side apply, as far as it matters who manages which field: leaves of a manifest, their managers, conflicts."""

from collections.abc import Iterator, Mapping
from typing import Any

Leaf = tuple[str, ...]
NAMED = {"containers": "name", "env": "name", "initContainers": "name", "volumes": "name", "volumeMounts": "mountPath"}


def leaves(value: Any, at: Leaf = ()) -> Iterator[tuple[Leaf, Any]]:
    """Lists of named things are merged by their names; other lists are one value."""
    match value:
        case Mapping() if value:
            for key, each in value.items():
                yield from leaves(each, (*at, str(key)))
        case list() if at and at[-1] in NAMED:
            for each in value:
                yield from leaves(each, (*at, f"[{each[NAMED[at[-1]]]}]"))
        case _:
            yield at, value


def put(found: dict[str, Any], at: Leaf, value: Any) -> None:
    here: Any = found
    for place, key in enumerate(at[:-1]):
        if key.startswith("["):
            here = _named(here, key[1:-1], at[place - 1])
        else:
            here = here.setdefault(key, [] if at[place + 1].startswith("[") else {})
    here[at[-1]] = value


def drop(found: dict[str, Any], at: Leaf) -> None:
    here: Any = found
    for place, key in enumerate(at[:-1]):
        if key.startswith("["):
            here = _named(here, key[1:-1], at[place - 1])
        elif key in here:
            here = here[key]
        else:
            return
    if isinstance(here, dict):
        here.pop(at[-1], None)


def _named(items: list[dict[str, Any]], name: str, kind: str) -> dict[str, Any]:
    for each in items:
        if each.get(NAMED[kind]) == name:
            return each
    items.append({NAMED[kind]: name})
    return items[-1]


class Managers:
    """Who manages which leaf of one object."""

    def __init__(self) -> None:
        self._of: dict[Leaf, set[str]] = {}

    def conflicts(self, manager: str, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
        """Leaves that others manage, and that would change."""
        now = dict(leaves(found))
        return sorted(
            f".{'.'.join(leaf)} of {' and '.join(sorted(others))}" for leaf, value in leaves(wanted)
            if (others := self._of.get(leaf, set()) - {manager}) and now.get(leaf) != value
        )

    def apply(self, manager: str, found: dict[str, Any], wanted: Mapping[str, Any], *, force: bool) -> None:
        """What the manager applied before and leaves out now goes, unless another manages it too."""
        new = dict(leaves(wanted))
        for leaf in [leaf for leaf, managers in self._of.items() if manager in managers and leaf not in new]:
            self._of[leaf].discard(manager)
            if not self._of[leaf]:
                del self._of[leaf]
                drop(found, leaf)
        now = dict(leaves(found))
        for leaf, value in new.items():
            managers = self._of.setdefault(leaf, set())
            if force and now.get(leaf) != value:
                managers.clear()
            managers.add(manager)
            put(found, leaf, value)

    def takes(self, manager: str, leaf: Leaf) -> None:
        """A change that is no apply: whoever makes it manages the field from then on."""
        self._of[leaf] = {manager}
