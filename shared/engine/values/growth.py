"""Values of `iter` that grow from task to task: a page is appended, and the log has each page once.

1. A rule that says `set_iter: {pages: {$extend: …}}` (also `$append`, `$merge`) adds to what is there. Its event
   carries what is added, never the whole, so that a run of any number of pages costs what its pages cost.
2. What is added mostly stands in the outcome of the same event already. Then the event says where (`at`); a reader
   finds it there, or in the stored value when the outcome is too large for the log.
3. A fold keeps the parts (`Grown`) and asks for nothing; the value is put together where templates see it (`shown`).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from shared.engine.values.ctx_patch import combined, extended
from shared.engine.values.stored_values import Values, value_of
from shared.errors import TemplateError
from shared.events.fields import Growth, Path
from shared.events.outcome import Outcome, Ref

HOW: dict[str, Literal["append", "extend", "merge"]] = {"$append": "append", "$extend": "extend", "$merge": "merge"}
SEARCHED = 256  # lists and mappings of an outcome among which an added value is looked for


class Part(Struct, frozen=True):
    """One addition: its value, or where that is stored."""

    how: Literal["append", "extend", "merge"]
    value: Any = None
    ref: Ref | None = None
    at: Path = ()


class Grown(Struct, frozen=True):
    """`start` is what was there before the first part."""

    start: Any = None
    parts: tuple[Part, ...] = ()

    @property
    def is_mapping(self) -> bool:
        return bool(self.parts) and self.parts[-1].how == "merge"


def growth(into: str, name: str, old: Any, new: Any, outcome: Outcome) -> Growth:
    """The addition of `new` by the reducer `name`, as its event has it. TemplateError when it does not fit."""
    how = HOW[name]
    if how == "merge" and not (isinstance(new, Mapping) and _holds_mapping(old)):
        raise TemplateError(f"set_iter: {name} adds a mapping to a mapping, for iter.{into}")
    if how != "merge" and (isinstance(old, dict) or (isinstance(old, Grown) and old.is_mapping)):
        raise TemplateError(f"set_iter: {name} cannot add to the mapping in iter.{into}")
    at = place_of(new, outcome.result) if outcome.ref is None else None
    return Growth(into, how, at=at) if at is not None else Growth(into, how, value=new)


def _holds_mapping(old: Any) -> bool:
    return old is None or isinstance(old, dict) or (isinstance(old, Grown) and (old.is_mapping or not old.parts))


def place_of(value: Any, within: Any) -> Path | None:
    """The way to this very value inside another; a number or a word is as short as the way to it."""
    if not isinstance(value, dict | list | str) or (isinstance(value, str) and len(value) < 64):
        return None
    level: list[tuple[Path, Any]] = [((), within)]
    looked = 0
    while level:
        below: list[tuple[Path, Any]] = []
        for path, each in level:
            if each is value:
                return path
            looked += 1
            if looked > SEARCHED:
                return None
            below += [((*path, key), item) for key, item in _items(each) if isinstance(item, dict | list | str)]
        level = below
    return None


def _items(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value[:SEARCHED])


def grow(iter_: Mapping[str, Any], added: tuple[Growth, ...], outcome: Outcome) -> dict[str, Any]:
    """`iter` with what an event adds to it."""
    found = dict(iter_)
    for each in added:
        old = found.get(each.into)
        held = old if isinstance(old, Grown) else Grown(old)
        found[each.into] = replace(held, parts=(*held.parts, _part(each, outcome)))
    return found


def _part(added: Growth, outcome: Outcome) -> Part:
    if added.at is None:
        return Part(added.how, added.value, added.ref)
    if outcome.ref is not None:
        return Part(added.how, None, outcome.ref, added.at)
    return Part(added.how, _at(outcome.result, added.at))


def _at(value: Any, path: Path) -> Any:
    """None where the way leads nowhere: nobody writes such a record but a liar."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def whole(grown: Grown, values: Values) -> Any:
    """The value; raises Missing when a stored part of it is not among `values`."""
    made = [(part.how, part.value if part.ref is None else _at(value_of(part.ref, values), part.at))
            for part in grown.parts]
    if grown.is_mapping:
        start = grown.start if isinstance(grown.start, dict) else {}
        for _, value in made:
            start = {**start, **value} if isinstance(value, dict) else start
        return start
    found = extended(None, grown.start)
    for how, value in made:
        if how == "append":
            found.append(value)
        else:
            found += extended(None, value)
    return found


def shown(iter_: Mapping[str, Any], values: Values) -> dict[str, Any]:
    """`iter` as templates see it, with that of the loops around it."""
    found = {key: whole(value, values) if isinstance(value, Grown) else value for key, value in iter_.items()}
    if isinstance(parent := found.get("parent"), dict):
        found["parent"] = shown(parent, values)
    return found


def sketched(iter_: Mapping[str, Any]) -> dict[str, Any]:
    """`iter` for people: of what is stored, the references."""
    found: dict[str, Any] = {}
    for key, value in iter_.items():
        if isinstance(value, Grown):
            parts = tuple(part if part.ref is None else Part("append", {"ref": to_builtins(part.ref)})
                          for part in value.parts)
            found[key] = whole(Grown(value.start, parts), {})
        else:
            found[key] = sketched(value) if key == "parent" and isinstance(value, dict) else value
    return found


def without(iter_: Mapping[str, Any]) -> dict[str, Any]:
    """`iter` as it is handed to a sub-playbook: what is collected stays here, or every call would carry it."""
    found = {key: value for key, value in iter_.items() if not isinstance(value, Grown)}
    if isinstance(parent := found.get("parent"), dict):
        found["parent"] = without(parent)
    return found


def reduced(
    then: Mapping[str, Any], made: dict[str, Any], held: Mapping[str, Any], seen: Mapping[str, Any], outcome: Outcome
) -> tuple[dict[str, Any], tuple[Growth, ...]]:
    """`set_iter` of a rule (`then`) as it was evaluated (`made`): what is written outright, and what is added. Only
    what the rule itself says is a reducer, never a value that looks like one. `held` is `iter` as folded, `seen` as
    shown."""
    plain, added = dict(made), list[Growth]()
    for key, value in then.items():
        name = next(iter(value), "") if isinstance(value, dict) and len(value) == 1 else ""
        if not isinstance(name, str) or not name.startswith("$"):
            continue
        new = plain.pop(key)[name]
        if name in HOW:
            added.append(growth(key, name, held.get(key), new, outcome))
        else:
            plain[key] = combined(f"iter.{key}", name, seen.get(key), new)
    return plain, tuple(added)
