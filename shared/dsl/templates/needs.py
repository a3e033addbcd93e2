"""Which names a step's templates can read, so that a command carries only those."""

from collections.abc import Iterator, Sequence
from typing import Any

from shared.dsl.model.plan import Needs
from shared.dsl.templates.analysis import facts

_NOTHING = Needs()


def names_used(value: Any) -> Needs:
    """What the templates in a value tree need. A text that does not parse needs nothing here: the
    compiler's `check` reports it."""
    found = [facts(text).needs for text in _texts(value) if "{{" in text or "{%" in text]
    return together(*found) if found else _NOTHING


def together(*found: Needs) -> Needs:
    """What all of them need."""
    return Needs(
        names=frozenset().union(*(need.names for need in found)),
        ctx=frozenset().union(*(need.ctx for need in found)),
        workload=frozenset().union(*(need.workload for need in found)),
        parts=_parts(found),
    )


def _parts(found: Sequence[Needs]) -> dict[str, frozenset[str]]:
    """The keys read of a name, over all templates; a name that one of them reads as a whole is not there."""
    names = frozenset().union(*(need.names for need in found))
    whole = {name for need in found for name in need.names - need.parts.keys()}
    return {name: frozenset().union(*(need.parts.get(name, frozenset()) for need in found))
            for name in sorted(names - whole)}


def _texts(value: Any) -> Iterator[str]:
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            yield node
        elif isinstance(node, dict):
            stack.extend(node.values())
        elif isinstance(node, list | tuple):
            stack.extend(node)
