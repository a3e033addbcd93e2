"""Trees of mappings and lists that are almost right: a value within becomes another, moves, comes twice or is gone."""

import random
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

Place = tuple[Any, Any]  # a mapping or list, and the key or index of a value in it


def anywhere(chance: random.Random, tree: Any) -> Place | None:
    """A place within, near the root as likely as far from it. None: there is none."""
    at, places = tree, list[Place]()
    while isinstance(at, dict | list) and at:
        key = chance.choice(list(at)) if isinstance(at, dict) else chance.randrange(len(at))
        places.append((at, key))
        at = at[key]
    return chance.choice(places) if places else None


def change(chance: random.Random, tree: Any, values: Sequence[Any]) -> None:
    """A value somewhere within becomes one of these, or is gone."""
    place = anywhere(chance, tree)
    if place is None:
        return
    holder, key = place
    if isinstance(holder, dict) and chance.random() < 0.2:
        del holder[key]
    else:
        holder[key] = deepcopy(chance.choice(values))


def graft(chance: random.Random, tree: Any, other: Any) -> None:
    """A value somewhere within becomes one from somewhere in the other."""
    place, source = anywhere(chance, tree), anywhere(chance, other)
    if place is not None and source is not None:
        place[0][place[1]] = deepcopy(source[0][source[1]])


def rename(chance: random.Random, tree: Any, words: Sequence[str]) -> None:
    """A key somewhere within becomes another, in its place."""
    place = anywhere(chance, tree)
    if place is None or not isinstance(place[0], dict):
        return
    holder, key = place
    items = [(chance.choice(words) if each == key else each, value) for each, value in holder.items()]
    holder.clear()
    holder.update(items)


def repeat(chance: random.Random, tree: Any) -> None:
    """An element of a list comes again, in another place of it."""
    place = anywhere(chance, tree)
    if place is not None and isinstance(place[0], list):
        place[0].insert(chance.randrange(len(place[0]) + 1), deepcopy(place[0][place[1]]))
