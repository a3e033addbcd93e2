"""Which reports of workers count, and which events end a lease, as the checker has it.

Both are stated here a second time, apart from `shared/engine/leases/fence.py` and `shared/events/classes.py` that every
other reader uses. The checker holds a log against the rules: with a rule shared, a mistake in it would be right by
definition, and no log could show it. So nothing here is imported from there, and whoever changes the rule changes both.

A report counts if no higher epoch spoke of the run before it, once, and until the run has ended. Whoever holds a local
loop as a whole holds its iterations. That a local loop has halted is not the end of its run.
"""

from collections.abc import Iterable, Sequence

from shared.answers.history.history import Entry, Held, History, Key
from shared.events import model as ev

PIPELINE_END = ev.StepDone | ev.StepFailed | ev.IterationDone | ev.IterationFailed
TERMINAL = PIPELINE_END | ev.FrameClaimed | ev.FrameFailed
LAST = TERMINAL | ev.TaskWaiting | ev.LoopHalted | ev.LeaseReleased


def history_of(execution_id: str, entries: Sequence[Entry]) -> History:
    """A history whose reports were counted here."""
    return History(execution_id, entries, accepted)


def accepted(entries: Iterable[Entry]) -> dict[Key, Held]:
    held: dict[Key, Held] = {}
    for seq, record in entries:
        lease = record.lease
        if lease is None:
            continue
        hold = held.setdefault(Key(lease.run_id, lease.index), Held(kept=[]))
        whole = held.get(Key(lease.run_id))
        if lease.epoch < hold.epoch or (whole is not None and lease.epoch < whole.epoch):
            if hold.late is None:
                hold.late = []
            hold.late.append((seq, record))
            continue
        if hold.end:
            continue
        if lease.epoch > hold.epoch:
            hold.epoch, hold.n = lease.epoch, 0
        if record.n <= hold.n or not record.events:
            continue
        hold.n = record.n + len(record.events) - 1
        hold.kept.append((seq, record))
        if isinstance(record.events[-1], TERMINAL):
            hold.end = seq
    return held
