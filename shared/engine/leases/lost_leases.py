"""The leases of a run that were lost: whoever claims it next counts them in the log.

A lease is lost when another one follows it and it had not ended by the end of the run, by a wait or by
`lease.released`, which says that a worker handed it back on purpose. If the claim that follows says that the broker had
been away, no worker could extend its leases: this one is over by no fault of its worker and does not count, except with
`max_leases: 1`, where nothing may run again. A task that finishes or waits, or an attempt that ends, is progress: the
count starts again. The first lease of a run may be lost before it wrote anything; then the first record is of a later
delivery of the same command, which counts as one lease, whatever came before; all that is known of it is when the
command was issued. With `max_leases: 1` nothing runs before its claim is in the log, so that silence counts as nothing.
"""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from shared.events import model as ev
from shared.events.classes import ENDS_LEASE
from shared.events.failure import WORKER_LOST, Failure
from shared.events.record import Epoch, Record
from shared.events.stamp import stamp

PROGRESS = ev.TaskDone | ev.TaskRetried | ev.TaskWaiting
MAX_NAMED = 10
UNSEEN = "a worker that died before its first word (the command is of {})"


class Lost(Struct, frozen=True):
    """Who had it, from its first to its last record. One that wrote nothing has no name, and `since` is when the
    command was issued."""

    worker: str = ""
    since: str = ""
    last: str = ""
    pid: int = 0
    outage: bool = False

    def __str__(self) -> str:
        life = f" (pid {self.pid})" if self.pid else ""
        return f"{self.worker}{life} from {self.since} to {self.last}" if self.worker else UNSEEN.format(self.since)

    def values(self) -> dict[str, Any]:
        found: dict[str, Any] = {"worker": self.worker, "since": self.since, "last": self.last}
        return found | ({"pid": self.pid} if self.pid else {})


class Released(Struct, frozen=True):
    """So many times in a row it was handed back, for one reason, with no task finished in between."""

    why: str = ""
    times: int = 0


class Leases:
    """Takes the records that count, in order. The progress of a local loop is that of its iterations."""

    def __init__(self) -> None:
        self._epoch: Epoch | None = None
        self._open: Lost | None = None
        self._lost: list[Lost] = []
        self.released = Released()

    @property
    def lost(self) -> tuple[Lost, ...]:
        """In a row, without those that were handed back; not the one that is open."""
        return tuple(self._lost)

    def take(self, record: Record) -> None:
        assert record.lease is not None
        epoch, worker, pid = record.lease.epoch, record.lease.worker, record.lease.pid
        if epoch != self._epoch:
            self._lose(epoch, any(isinstance(event, ev.StepStarted) and event.outage for event in record.events))
            self._epoch, self._open = epoch, Lost(worker, record.ts, record.ts, pid)
        if self._open is not None:
            self._open = Lost(worker, self._open.since, record.ts, pid)
        for event in record.events:
            if isinstance(event, PROGRESS):
                self.progress()
            if isinstance(event, ENDS_LEASE):
                self._open = None
                if isinstance(event, ev.LeaseReleased):
                    again = self.released.times if event.why == self.released.why else 0
                    self.released = Released(event.why, again + 1)

    def _lose(self, next_epoch: Epoch, outage: bool) -> None:
        if self._epoch is None and next_epoch[1] > 1:
            self._lost.append(Lost(since=stamp(next_epoch[0] / 1e9), outage=outage))
        if self._open is not None:
            self._lost.append(replace(self._open, outage=outage))

    def progress(self) -> None:
        self._lost, self.released = [], Released()


def counted(lost: tuple[Lost, ...], most: int) -> list[Lost]:
    """Those that bring the run nearer to its end by `max_leases`."""
    return [lease for lease in lost if (not lease.outage if most > 1 else lease.worker)]


def failure(lost: tuple[Lost, ...], most: int) -> dict[str, Any] | None:
    """The error of a run that has lost too many leases; None if it may continue."""
    found = counted(lost, most)
    if len(found) < most:
        return None
    who = "; ".join(map(str, found[-MAX_NAMED:]))
    said = Failure(
        WORKER_LOST,
        f"{len(found)} leases in a row were lost with no task finished in between (max_leases {most}): {who}",
        retryable=False,
    ).error()
    # The message is the last of the three: logs have it so, and templates that print an error show it so.
    said["message"] = said.pop("message")
    return {**said, "leases": [lease.values() for lease in found]}
