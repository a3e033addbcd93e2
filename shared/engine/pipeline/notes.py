"""What a lease has to say and has not written yet, and what it has written."""

from shared.engine.values.stored_values import SHRINKABLE, Blobs, shrink
from shared.events import model as ev
from shared.events.classes import ENDS_LEASE
from shared.events.record import Lease, Writer
from shared.events.run_index import is_run

MAX_WHY = 200  # characters


class Notes:
    """`writer` is who says what is noted; `n` counts the events that are written."""

    def __init__(self, execution_id: str, lease: Lease, limit: int, *, whole: bool = False) -> None:
        """Values over `limit` bytes are stored beside the log. `whole`: the lease is on a loop as a whole, of which
        the scheduler wants to hear."""
        self.execution_id, self.lease, self._limit = execution_id, lease, limit
        self._own: Writer = "worker" if is_run(lease.index) and not whole else "iteration"
        self.writer: Writer = self._own
        self.n = 0
        self.unwritten: list[ev.Event] = []
        self._blobs: Blobs = {}
        self._last: ev.Event | None = None

    @property
    def over(self) -> bool:
        """The last event of the lease is written."""
        return isinstance(self._last, ENDS_LEASE)

    def note(self, *events: ev.Event) -> list[ev.Event]:
        """These go out with the next record; returned as they are in it. Unstorable if a value is over the limit for
        one."""
        if len(events) == 1 and type(events[0]) not in SHRINKABLE:
            self.unwritten.append(events[0])
            return self.unwritten[-1:]
        small, blobs = shrink(self.execution_id, events, self._limit)
        self.unwritten += small
        if blobs:
            self._blobs.update(blobs)
        return small

    def park(self, event: ev.TaskWaiting) -> None:
        """What is noted ends with a wait: it goes to the scheduler, and nothing may follow."""
        self.note(event)
        self.writer = "waiting"

    def release(self, why: str, printed: ev.Printed | None = None) -> bool:
        """Notes that the lease is handed back on purpose; whether there is anything to write. What was noted is true
        all the same; a wait that was not written is not begun. A lease without any event writes nothing: a first record
        would be a claim, and fence the run's holder."""
        if self.over or not (self.n or self.unwritten):
            return False
        if self.writer != self._own:
            self.forget()
        begun = self.n or self.unwritten
        self.note(*(() if begun else (ev.StepStarted(),)), ev.LeaseReleased(why[:MAX_WHY], printed))
        return True

    def forget(self) -> None:
        """What was noted and not written is dropped, a wait included."""
        self.unwritten, self._blobs = [], {}
        self.writer = self._own

    def take(self) -> list[ev.Event]:
        """What is to be written now."""
        events, self.unwritten = self.unwritten, []
        return events

    def take_stored(self) -> Blobs:
        """What is to be stored before that."""
        blobs, self._blobs = self._blobs, {}
        return blobs

    def count(self, events: list[ev.Event]) -> None:
        """These are in the log."""
        self.n += len(events)
        self._last = events[-1]
