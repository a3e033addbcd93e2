"""The fence: which records of workers count.

Why there is one. A worker that takes a command holds what the command is for under a *lease*. It may stop for longer
than the broker waits (a paused machine, a cut network), the command is delivered again, and another worker takes it;
then the first one wakes up and writes what it has to say. Nobody can keep it from writing: the broker knows no leases,
and whoever asked first would know nothing the moment after. So both write, and every reader decides by the log alone,
and all of them in the same way, which records are history and which are only there.

The rule. In the order of the log, a record of a lease counts

1. if it *fits*: the run is there, and this is something that such a lease can say (`lease_fit.py`);
2. if no higher epoch came before it. The *epoch* of a lease is when its command was published and how often it was
   delivered, so a later lease of the same run always has the higher one, also if the command was issued again. The
   first record under it is a *claim*: what its holder does next it does because of what it read up to there, so what
   comes under a lower epoch behind the claim it did not know of, and it must never become true. Before the claim it
   counts: the next holder continues after it;
3. once. A worker whose append gets no answer writes the record again, and both may arrive, the first one even behind
   later records. `n` tells: it numbers the events of a lease without a gap. It does so for each lease, not for each
   run, because the next holder cannot know how far the numbers of the one before will have got; so the count begins
   again with every claim, and there is no gap to look for between leases;
4. until what is held is over (`ENDS_WORK`). Who comes later, under however high an epoch, finds it over.

What is held is a run, an iteration, a claim of rows, or a local loop as a whole: each counts for itself, by run and
index. Whoever claims a local loop as a whole claims its iterations with it, begun or not: a lower epoch than the loop's
says nothing about them either. The other way round it is not so: an iteration's records carry the epoch under which the
loop is held, and are no claim of it.

What is not of a lease counts as it is. Router and scheduler have a fence of their own: the broker accepts their records
only behind the last one they know. So a `task.resumed` ends the wait it names for whoever holds the run; the next
lease, which it causes, has the higher epoch by itself.

The control plane has the last word. A run that it ended (`ENDS_RUN`) is over for those who show how things ended, and
they `close` it. Those who care for who is still at work do not: a worker continues until it has heard of it.

Who keeps what. Router, scheduler and read model fold the rule into states of their own, with the functions below; a
worker that takes over keeps a `Counted`; whoever reads a whole log has a `Fence`. The scheduler leaves out the numbers:
its state has to be small for loops of many iterations, and none of what it folds is changed by the same record again
(an iteration, a frame and a wait end once). It does not read what workers say of plain runs either, and knows of their
leases only those that wait. `shared/answers/verify` states the rule a second time, on purpose.
"""

from msgspec import Struct

from shared.engine.leases.lease_fit import Sieve
from shared.events.classes import ENDS_WORK
from shared.events.record import Epoch, Lease, Record
from shared.events.run_index import RUN, is_run

NOBODY: Epoch = (0, 0)  # before every lease


def is_outranked(lease: Lease, epoch: Epoch, whole: Epoch = NOBODY) -> bool:
    """A higher epoch came before: of what it holds, or of the local loop as a `whole` that this is a part of."""
    return lease.epoch < epoch or lease.epoch < whole


def counts(record: Record, epoch: Epoch, n: int) -> bool:
    """Whether a record that fits counts behind the last one that did, which was of this epoch and ended with the event
    `n` of its lease."""
    lease = record.lease
    assert lease is not None
    return lease.epoch > epoch or (lease.epoch == epoch and record.n > n)


def last_number(record: Record) -> int:
    return record.n + len(record.events) - 1


class Counted(Struct):
    """How far the records of one run, iteration, claim of rows or local loop have counted."""

    epoch: Epoch = NOBODY
    n: int = 0
    over: bool = False

    def take(self, record: Record) -> bool:
        """Whether the next record counts, which is about just that, and fits."""
        if self.over or not counts(record, self.epoch, self.n):
            return False
        assert record.lease is not None
        self.epoch, self.n = record.lease.epoch, last_number(record)
        self.over = isinstance(record.events[-1], ENDS_WORK)
        return True

    def claimed(self, epoch: Epoch) -> None:
        """The loop that it is an iteration of is held as a whole under this epoch."""
        if epoch > self.epoch:
            self.epoch, self.n = epoch, 0


class Fence:
    """Of a whole execution, for whoever reads all of its records, in the order of the log."""

    def __init__(self) -> None:
        self._sieve = Sieve()
        self._counted: dict[tuple[str, int], Counted] = {}
        self._closed: set[str] = set()

    def takes(self, record: Record) -> bool:
        """Whether the next record of the log counts."""
        return not self._sieve.misfit(record) and self.counts(record)

    def counts(self, record: Record) -> bool:
        """The same for whoever has asked by itself whether it fits."""
        lease = record.lease
        if lease is None:
            return True
        if lease.run_id in self._closed:
            return False
        if not is_run(lease.index):
            whole = self._counted.get((lease.run_id, RUN))
            if whole is not None and is_outranked(lease, whole.epoch):
                return False
        key = (lease.run_id, lease.index)
        found = self._counted.get(key)
        if found is None:
            found = self._counted[key] = Counted()
        return found.take(record)

    def close(self, run_id: str) -> None:
        """The control plane has said how the run ends, and its iterations with it: no report changes that."""
        self._closed.add(run_id)
