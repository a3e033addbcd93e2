"""Places of keys in a rehearsal: its execution is alone with the ledgers, so it gets what its own runs leave free."""

from collections.abc import Iterable, Iterator

from shared.engine.scheduling import limit_ledger
from shared.engine.scheduling.limit_ledger import Ledger
from shared.engine.scheduling.limits import Want
from shared.events import model as ev

ME = "rehearsal"


class Places:
    """Not `counted`: every place is given at once, because when it was given is already known."""

    def __init__(self, *, counted: bool) -> None:
        self._counted = counted
        self._ledgers: dict[str, Ledger] = {}
        self._told: set[str] = set()
        self.again: float | None = None  # when time alone gives the next one

    def grant(self, wants: Iterable[Want], now: float) -> Iterator[tuple[ev.LimitGranted, str]]:
        """The grants of the places that are wanted, each once, with its source."""
        found = list(wants)
        self._told &= {want.holder for want in found}
        for want in self._given(found, now):
            if want.holder not in self._told and not want.granted:
                self._told.add(want.holder)
                at = want.holder.partition("/")[2] or "execution"
                yield ev.LimitGranted(want.limit.key, want.run_id, want.index), f"grant-{at}"

    def _given(self, wants: list[Want], now: float) -> list[Want]:
        if not self._counted:
            return wants
        keys: dict[str, list[Want]] = {key: [] for key in self._ledgers}
        for want in wants:
            keys.setdefault(want.limit.key, []).append(want)
        given: list[Want] = []
        times: list[float] = []
        for key, mine in keys.items():
            before = self._ledgers.get(key, Ledger())
            gone = before.holders.keys() - {want.holder for want in mine}
            settled = limit_ledger.settle(before, ME, mine, gone, now, ())
            self._ledgers[key] = settled.ledger
            given += settled.granted
            times += [settled.again] if settled.again is not None else []
        self.again = min(times, default=None)
        return given
