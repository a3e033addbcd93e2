"""What the log says of a run that may have been held before: where to go on, or that it is over."""

from collections.abc import Iterable

from msgspec import Struct

from shared.dsl.plan import Step
from shared.engine import pipeline
from shared.engine.pipeline import Progress
from shared.events import model as ev
from shared.events.index import RUN
from shared.events.record import Epoch, Record
from shared.events.stamp import seconds

TERMINAL = (
    ev.StepDone | ev.StepFailed | ev.IterationDone | ev.IterationFailed | ev.FrameClaimed | ev.FrameFailed
    | ev.LoopHalted
)


class History(Struct, frozen=True):
    """What counts of a run, in log order; `epoch` is the highest that holds it."""

    events: tuple[ev.Event, ...] = ()
    epoch: Epoch = (0, 0)
    over: bool = False
    began: float | None = None

    def progress(self, step: Step, start: Progress) -> Progress:
        for event in self.events:
            start = pipeline.evolve(step, start, event)
        return start


def accept(records: Iterable[Record], run_id: str, index: int) -> History:
    fence = Fence(run_id, index)
    for record in records:
        fence.take(record)
    return fence.history


class Fence:
    """A record counts if no higher epoch came before it, once, and until the run is over. The end of a wait is
    the scheduler's word and counts as it is. Whoever holds a local loop as a whole holds its iterations."""

    def __init__(self, run_id: str, index: int) -> None:
        self._run_id, self._index = run_id, index
        self._kept: list[ev.Event] = []
        self._n = 0
        self._began: float | None = None
        self.epoch: Epoch = (0, 0)
        self.over = False

    @property
    def history(self) -> History:
        return History(tuple(self._kept), self.epoch, self.over, self._began)

    def take(self, record: Record) -> None:
        lease = record.lease
        if self.over:
            return
        if lease is None:
            self._kept += [event for event in record.events if _resumes(event, self._run_id, self._index)]
            return
        if lease.run_id != self._run_id or lease.index not in (self._index, RUN) or lease.epoch < self.epoch:
            return
        if lease.epoch > self.epoch:
            self.epoch, self._n = lease.epoch, 0
        if lease.index != self._index or record.n <= self._n:
            return
        self._n = record.n + len(record.events) - 1
        self._began = self._began or seconds(record.ts)
        self._kept += record.events
        self.over = isinstance(record.events[-1], TERMINAL)


def _resumes(event: ev.Event, run_id: str, index: int) -> bool:
    return isinstance(event, ev.TaskResumed) and (event.run_id, event.index) == (run_id, index)
