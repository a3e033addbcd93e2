"""What the log says of a run that may have been held before: where to go on, or that it is over."""

from collections.abc import Iterable

from msgspec import Struct

from shared.dsl.plan import Step
from shared.engine import pipeline
from shared.engine.pipeline import Progress
from shared.events import model as ev
from shared.events.record import Epoch, Record
from shared.events.stamp import seconds

TERMINAL = ev.StepDone | ev.StepFailed | ev.IterationDone | ev.IterationFailed


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
    """The fence: a record counts if no higher epoch came before it, once, and until the run is over. The
    end of a wait is the scheduler's word and counts as it is."""
    kept: list[ev.Event] = []
    epoch: Epoch = (0, 0)
    n = 0
    began: float | None = None
    for record in records:
        lease = record.lease
        if lease is None:
            kept += [event for event in record.events if _resumes(event, run_id, index)]
            continue
        if lease.run_id != run_id or lease.index != index or lease.epoch < epoch:
            continue
        if lease.epoch > epoch:
            epoch, n = lease.epoch, 0
        if record.n <= n:
            continue
        n = record.n + len(record.events) - 1
        began = began or seconds(record.ts)
        kept += record.events
        if isinstance(record.events[-1], TERMINAL):
            return History(tuple(kept), epoch, True, began)
    return History(tuple(kept), epoch, False, began)


def _resumes(event: ev.Event, run_id: str, index: int) -> bool:
    return isinstance(event, ev.TaskResumed) and (event.run_id, event.index) == (run_id, index)
