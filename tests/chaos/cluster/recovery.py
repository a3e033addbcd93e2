"""What a fault cost, by the times of the executions around it."""

import statistics
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

COLUMNS = ("away", "silence", "longest", "recovered", "next", "current")
SLOW_S = 3.0  # an execution of ten steps that takes longer was held up


class Made(NamedTuple):
    """A fault as it was carried out. `at`: it began; `back`: the broker runs again; `current`: it has all copies."""

    kind: str
    what: str
    at: float
    back: float
    current: float


class Seen(NamedTuple):
    """An execution: when it was asked for, when a router took it, when it ended."""

    asked: float
    began: float
    ended: float


class Cost(NamedTuple):
    """In seconds. `silence`: the longest time in which no execution ended. `longest`: the slowest one that was asked
    for then. `recovered`: from the fault until the last one that it held up had ended. `next`: from the return of the
    broker until an execution that was asked for after it began. `current`: from its return until it has all copies."""

    away: float
    silence: float
    longest: float
    recovered: float
    next: float
    current: float


def cost(made: Made, until: float, seen: Sequence[Seen]) -> Cost:
    """`until` the next fault. `seen` is in the order of asking."""
    after = seen[bisect_left(seen, made.at, key=lambda each: each.asked):]
    during = [each for each in after if each.asked < until]
    hit = [each for each in seen if each.asked < until and each.ended >= made.at]
    held_up = [each.ended - made.at for each in hit if each.ended - each.asked > SLOW_S]
    nexts = [each.began - made.back for each in after if each.asked >= made.back]
    return Cost(
        made.back - made.at,
        silence(sorted(each.ended for each in seen), made.at, until),
        max((each.ended - each.asked for each in during), default=0.0),
        max(held_up, default=0.0),
        min(nexts, default=0.0),
        made.current - made.back,
    )


def silence(ends: Sequence[float], since: float, until: float) -> float:
    marks = [since, *(end for end in ends if since < end < until), until]
    return max(later - sooner for sooner, later in pairwise(marks))


def costs(made: Sequence[Made], over: float, seen: Sequence[Seen]) -> list[Cost]:
    """Of each fault up to the next one, and of the last until all was `over`."""
    ordered = sorted(seen)
    untils = [*(later.at for later in made[1:]), over]
    return [cost(each, until, ordered) for each, until in zip(made, untils, strict=True)]


def table(made: Sequence[Made], found: Sequence[Cost]) -> list[str]:
    """A line for each fault, then the median and the highest of each kind."""
    lines = [_line("fault", COLUMNS)]
    lines += [_line(f"{fault.kind} {fault.what}", each) for fault, each in zip(made, found, strict=True)]
    for kind, of_kind in _by_kind(made, found).items():
        for word, pick in (("median", statistics.median), ("highest", max)):
            figures = [pick(column) for column in zip(*of_kind, strict=True)]
            lines.append(_line(f"{word} of {len(of_kind)}: {kind}", figures))
    return lines


def _by_kind(made: Sequence[Made], found: Sequence[Cost]) -> Mapping[str, list[Cost]]:
    kinds: dict[str, list[Cost]] = {}
    for fault, each in zip(made, found, strict=True):
        kinds.setdefault(fault.kind, []).append(each)
    return kinds


def _line(name: str, values: Sequence[object]) -> str:
    shown = (f"{value:.1f}" if isinstance(value, float) else str(value) for value in values)
    return f"{name:<44}" + "".join(f"{each:>11}" for each in shown)
