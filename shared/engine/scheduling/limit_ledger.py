"""The ledger of one key: who holds a place of it, when the last ones were given, and who is first in line.

Each scheduler looks after its own executions and settles the ledger by compare-and-set, so two of them never give
away the same place. The order is one for all: by priority, then who holds the fewest places of this key, then who
has waited longest. A scheduler whose first in line is not the first of all leaves the place to the other.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import msgspec
from msgspec import Struct

from shared.engine.scheduling.limits import Want
from shared.errors import Corrupt
from shared.events.decoding import read

MAX_LEDGER_BYTES = 1_048_576
Rank = tuple[int, int, str, str]  # priority (the highest first), places held, since when, who


class Ledger(Struct, frozen=True, omit_defaults=True):
    """`holders` maps `execution/place` to when it was given; `given` are the times of the last ones, the oldest
    first, as far as the rates asked for so far reach back: `count` of them in `period_s`; `heads` are the first in
    line of each scheduler."""

    holders: dict[str, float] = {}
    given: list[float] = []
    heads: dict[str, Rank] = {}
    count: int = 0
    period_s: float = 0.0


class Settled(Struct, frozen=True):
    """`granted` also names those that hold a place already: it may not be in their log yet. `again` is when time
    alone lets the next one in."""

    ledger: Ledger
    granted: list[Want]
    again: float | None = None


_decoder = msgspec.json.Decoder(Ledger)


def decode(data: bytes) -> Ledger:
    """One that cannot be read is as good as lost: those who hold its places write it anew."""
    try:
        return read(_decoder, data, "a ledger", MAX_LEDGER_BYTES)
    except Corrupt:
        return Ledger()


def encode(ledger: Ledger) -> bytes:
    return msgspec.json.encode(ledger)


def moved(ledger: Ledger, late: Iterable[tuple[float, float]]) -> Ledger:
    """With the times of grants as their logs have them: a rate counts from the record that gives a place, which may
    come later than the ledger's entry. `late` are pairs of both times."""
    given = list(ledger.given)
    for at, said in late:
        if at in given:
            given.remove(at)
        given.append(said)
    return msgspec.structs.replace(ledger, given=sorted(given))


def settle(
    ledger: Ledger, me: str, wants: Iterable[Want], gone: Collection[str], now: float, others: Collection[str]
) -> Settled:
    """`wants` are mine, waiting or granted by their logs; `gone` those that hold nothing any more; `others` the
    schedulers that are there."""
    holders = {who: at for who, at in ledger.holders.items() if who not in gone}
    given = list(ledger.given)
    heads = {who: head for who, head in ledger.heads.items() if who in others and who != me}
    granted: list[Want] = []
    waiting: list[Want] = []
    for want in wants:
        if want.granted:
            holders.setdefault(want.holder, now)  # a ledger that was lost is written anew
        elif want.holder in holders:
            granted.append(want)
        else:
            waiting.append(want)
    held = Counter(who.partition("/")[0] for who in holders)
    again = None
    while waiting:
        first = min(waiting, key=lambda want: rank(want, held))
        if any(head < rank(first, held) for head in heads.values()) or not has_place(first, holders):
            break
        again = ready(first, given, now)
        if again is not None:
            break
        waiting.remove(first)
        holders[first.holder] = now
        held[first.execution_id] += 1
        given.append(now)
        granted.append(first)
    mine = min((rank(want, held) for want in waiting), default=None)
    if mine is not None:
        heads[me] = mine
    return Settled(_kept(ledger, holders, given, heads, [*waiting, *granted], now), granted, again)


def _kept(
    ledger: Ledger, holders: dict[str, float], given: list[float], heads: dict[str, Rank], wants: list[Want], now: float
) -> Ledger:
    """Of the times, what a rate may still ask for: none where there is no rate."""
    count = max([ledger.count, *(want.limit.count for want in wants)])
    period = max([ledger.period_s, *(want.limit.period_s for want in wants)])
    recent = [at for at in given if at > now - period][-count:] if count else []
    return Ledger(holders, recent, heads, count, period) if recent else Ledger(holders, [], heads)


def rank(want: Want, held: Mapping[str, int]) -> Rank:
    """`held`: how many places each execution has."""
    who = f"{want.execution_id}/{want.run_id}.{want.index:07d}"
    return -want.priority, held.get(want.execution_id, 0), want.at, who


def has_place(want: Want, holders: Mapping[str, float]) -> bool:
    return not want.limit.max or len(holders) < want.limit.max


def ready(want: Want, given: list[float], now: float) -> float | None:
    """None: now; else when as many as the rate allows were given long enough ago."""
    count = want.limit.count
    if not count or len(given) < count:
        return None
    ready = given[-count] + want.limit.period_s
    return ready if ready > now else None
