"""Places of keys that are waited for: who holds them, when the rate lets the next one in, who is before it in line."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from shared.answers.why.facts import Reason, World
from shared.answers.why.pools import MAX_LISTED
from shared.answers.why.remedies import GOES_ON, remedy, start
from shared.answers.why.view import Plans, View
from shared.engine.scheduling import limits as scheduling_limits
from shared.engine.scheduling.limit_ledger import Ledger, has_place, rank, ready
from shared.engine.scheduling.limits import Want
from shared.engine.scheduling.loops import iter_of
from shared.engine.values.stored_values import Values
from shared.events.stamp import stamp

MAX_FOLLOWED = 3  # holders of a key whose own reasons are reported


def wanted(view: View, plans: Plans, values: Values) -> list[Want]:
    """The places that are waited for."""
    return [want for want in scheduling_limits.wants(plans, view.schedule, values, iter_of) if not want.granted]


def holders_of(ledger: Ledger, execution_id: str) -> list[str]:
    """Other executions that hold places, the longest first."""
    found = [who.partition("/")[0] for who, _ in sorted(ledger.holders.items(), key=lambda entry: entry[1])]
    return [who for who in dict.fromkeys(found) if who != execution_id][:MAX_FOLLOWED]


def is_free(want: Want, world: World) -> bool:
    """Nothing but its scheduler keeps it from its place."""
    ledger = world.ledgers.get(want.limit.key, Ledger())
    return has_place(want, ledger.holders) and ready(want, ledger.given, world.now) is None


def waiting(view: View, world: World, wants: list[Want]) -> Iterator[Reason]:
    for want in wants:
        found = _waits(view, world, want, [other for other in wants if other.limit.key == want.limit.key])
        step = want.run_id.rpartition(":")[0]
        yield replace(found, step=step, run_id=want.run_id, index=want.index, since=want.at)


def _waits(view: View, world: World, want: Want, mine: list[Want]) -> Reason:
    limit, ledger = want.limit, world.ledgers.get(want.limit.key, Ledger())
    holders = _listed(ledger, view.execution_id)
    values: dict[str, Any] = {
        "key": limit.key, "max": limit.max, "held": len(ledger.holders), "holders": holders,
        "before": _before(want, mine, ledger), "priority": want.priority,
    }
    if limit.count:
        values |= {"rate": f"{limit.count} in {limit.period_s:g} s", "given": len(ledger.given)}
    if not has_place(want, ledger.holders):
        return _full(view, world, want, ledger, values)
    again = ready(want, ledger.given, world.now)
    if again is not None:
        text = f"{_who(want)} waits for a place of key {limit.key}: its rate of {values['rate']} is used up"
        return Reason("limit.rate", "blocked", text, values=values, until=stamp(again), remedy=GOES_ON)
    return _in_line(world, want, values)


def _full(view: View, world: World, want: Want, ledger: Ledger, values: dict[str, Any]) -> Reason:
    others = tuple(world.others[who] for who in holders_of(ledger, view.execution_id) if who in world.others)
    first = [f"{found['execution_id']} ({found['place'] or 'the execution'})" for found in values["holders"][:5]]
    held = f"all {want.limit.max} are held, by {', '.join(first)}"
    text = f"{_who(want)} waits for a place of key {want.limit.key}: {held}"
    other = next(iter(holders_of(ledger, view.execution_id)), "")
    helps = remedy("holder_cancelled", holder=other) if other else remedy("holder_ends")
    return Reason(_cause(want), "blocked", text + _line(values), values=values,
                  remedy=helps, because=others)


def _in_line(world: World, want: Want, values: dict[str, Any]) -> Reason:
    if world.members is not None and not world.members.get("scheduler"):
        text = f"{_who(want)} waits for a place of key {want.limit.key}, and no scheduler is running to give it one"
        return Reason("scheduler.gone", "blocked", text, values=values, remedy=start("scheduler"))
    text = f"{_who(want)} waits for a place of key {want.limit.key}; one is free"
    return Reason(_cause(want), "blocked", text + _line(values), values=values,
                  remedy=remedy("gets_place"))


def _cause(want: Want) -> str:
    return "limit.places" if want.run_id else "limit.execution"


def _who(want: Want) -> str:
    return "it" if want.run_id else "the whole execution"


def _line(values: dict[str, Any]) -> str:
    before = values["before"]
    return f"; at least {before} stand before it" if before else ""


def _before(want: Want, mine: list[Want], ledger: Ledger) -> int:
    """As far as the ledger and this log tell: the first in line of each scheduler, and others of its own."""
    held = Counter(who.partition("/")[0] for who in ledger.holders)
    own = rank(want, held)
    return sum(other < own for other in {*(rank(other, held) for other in mine), *ledger.heads.values()})


def _listed(ledger: Ledger, own: str) -> list[dict[str, Any]]:
    found = sorted(ledger.holders.items(), key=lambda entry: entry[1])[:MAX_LISTED]
    parts = [(who.partition("/"), at) for who, at in found]
    return [{"execution_id": who[0], "place": who[2], "since": stamp(at), "own": who[0] == own} for who, at in parts]


def followed(ledgers: dict[str, Ledger], wants: list[Want], execution_id: str) -> list[str]:
    """The executions whose own reasons are worth telling: they hold what is waited for."""
    found: list[str] = []
    for want in wants:
        ledger = ledgers.get(want.limit.key, Ledger())
        if not has_place(want, ledger.holders):
            found += holders_of(ledger, execution_id)
    return list(dict.fromkeys(found))[:MAX_FOLLOWED]

