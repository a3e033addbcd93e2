"""Which executions may be purged: those that are over, old enough, and related to none that is not.

Executions are related when one called the other or was made from it by a rerun: either may refer to results of the
other. A family goes as a whole, or not at all.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

Edge = tuple[str, str]


class Choice(Struct, frozen=True):
    """`related` would be old enough, but belong to a family that is not; `more`: as many as the limit allows."""

    chosen: tuple[str, ...]
    related: int = 0
    more: bool = False


def choose(old: Sequence[str], edges: Iterable[Edge], limit: int, gone: frozenset[str] = frozenset()) -> Choice:
    """`old`: the executions that are over and old enough, oldest first; `gone` were purged before. Families beyond the
    limit wait for the next time; one that is larger than the limit itself goes all the same."""
    groups = _families(edges)
    candidates = gone.union(old)
    chosen: list[str] = []
    related = 0
    seen: set[str] = set()
    for each in old:
        if each in seen:
            continue
        family = groups.get(each, [each])
        seen.update(family)
        if not candidates.issuperset(family):
            related += sum(member in candidates for member in family)
        elif chosen and len(chosen) + len(family) > limit:
            return Choice(tuple(chosen), related, more=True)
        else:
            chosen += [member for member in family if member not in gone]
    return Choice(tuple(chosen), related)


def _families(edges: Iterable[Edge]) -> dict[str, list[str]]:
    """Every execution that is related to another, with all of its family. Each family is one list."""
    families: dict[str, list[str]] = {}
    for one, other in edges:
        mine, theirs = families.get(one, [one]), families.get(other, [other])
        if mine is theirs:
            continue
        small, large = sorted((mine, theirs), key=len)
        large += small
        for member in (*small, one, other):
            families[member] = large
    return families
