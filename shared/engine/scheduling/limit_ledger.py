"""The ledger of one key: who holds a place of it, when the last ones were given, and who is first in line.

1. Executions that share a key live in different partitions, which different schedulers look after. The ledger is the
   one thing they share: a KV entry that each scheduler settles for its own executions and writes by compare-and-set.
   One that loses the race reads the entry and settles again, so two of them never give away the same place.
2. The order is one for all: by priority, then whose execution holds the fewest places of this key, then who has waited
   longest. No scheduler sees all that wait, so each leaves its first in line in `heads`. One whose own first is not the
   first of all gives nothing. Heads of schedulers that are gone do not count, so none of them can block the others;
   now and then they are struck out (`tidy`). Not always: two schedulers that do not see each other for a while would
   strike out each other's head, and write the ledger as fast as the broker takes it.
3. The ledger follows from the logs, not the other way round. A holder that its log shows is entered, one whose run is
   over is struck out, and one that is entered and not in its log yet is reported as granted again. A ledger that was
   lost or cannot be read starts empty, and the schedulers enter the holders they know of as they settle it.
4. A rate counts exactly: at most `count` grants in any period of `period_s`, by the times of the last grants. A token
   bucket would let twice as many through across its edge. What counts is when the record with the grant was written,
   which may be later than the entry here; the time is corrected when it is known (`moved`).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import msgspec
from msgspec import Struct

from shared.engine.scheduling.limits import Want
from shared.errors import Corrupt
from shared.events.decoding import read

MAX_LEDGER_BYTES = 1_048_576
Rank = tuple[int, int, str, str]  # the lowest is next: negated priority, places held, waiting since, who


class Ledger(Struct, frozen=True, omit_defaults=True):
    """`holders` maps `execution/place` to the time of the grant. `given` are the times of the last grants, oldest
    first, as far back as the widest rate seen so far needs: `count` in `period_s`. `heads` are the first in line of
    each scheduler."""

    holders: dict[str, float] = {}
    given: list[float] = []
    heads: dict[str, Rank] = {}
    count: int = 0
    period_s: float = 0.0


class Settled(Struct, frozen=True):
    """`granted` includes those that hold a place already: their log may not show it yet. `again` is when the rate lets
    the next one in, by time alone."""

    ledger: Ledger
    granted: list[Want]
    again: float | None = None


_decoder = msgspec.json.Decoder(Ledger)


def decode(data: bytes) -> Ledger:
    """One that cannot be read is treated as lost (rule 3)."""
    try:
        return read(_decoder, data, "a ledger", MAX_LEDGER_BYTES)
    except Corrupt:
        return Ledger()


def encode(ledger: Ledger) -> bytes:
    return msgspec.json.encode(ledger)


def moved(ledger: Ledger, late: Iterable[tuple[float, float]]) -> Ledger:
    """With the times of grants as their logs have them (rule 4). `late` are pairs: the time in the ledger, and when the
    record was written."""
    given = list(ledger.given)
    for at, said in late:
        if at in given:
            given.remove(at)
        given.append(said)
    return msgspec.structs.replace(ledger, given=sorted(given))


def settle(
    ledger: Ledger, me: str, wants: Iterable[Want], gone: Collection[str], now: float, others: Collection[str],
    *, tidy: bool = True,
) -> Settled:
    """`wants` are this scheduler's, waiting or granted by their logs; `gone` are holders whose run is over; `others`
    the schedulers that are alive."""
    holders = {who: at for who, at in ledger.holders.items() if who not in gone}
    given = list(ledger.given)
    heads = {who: head for who, head in ledger.heads.items() if who != me}
    ahead = [head for who, head in heads.items() if who in others]
    if tidy:
        heads = {who: head for who, head in heads.items() if who in others}
    granted: list[Want] = []
    waiting: list[Want] = []
    for want in wants:
        if want.granted:
            holders.setdefault(want.holder, now)  # its log has the grant, and a lost ledger does not
        elif want.holder in holders:
            granted.append(want)
        else:
            waiting.append(want)
    held = Counter(who.partition("/")[0] for who in holders)
    again = None
    while waiting:
        first = min(waiting, key=lambda want: rank(want, held))
        if any(head < rank(first, held) for head in ahead) or not has_place(first, holders):
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
    """Keeps the times that a rate may still need: none where there is no rate."""
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
    """None: now; else when the rate allows the next grant."""
    count = want.limit.count
    if not count or len(given) < count:
        return None
    ready = given[-count] + want.limit.period_s
    return ready if ready > now else None
