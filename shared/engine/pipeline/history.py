"""What the log says of a run that may have been held before: where to continue, or that it is over."""

from collections.abc import Iterable

from msgspec import Struct

from shared.dsl.model.plan import Step
from shared.engine.leases.fence import NOBODY, Counted
from shared.engine.leases.lease_fit import Known, misfit
from shared.engine.leases.lost_leases import Leases, Lost, Released
from shared.engine.pipeline import decide as pipeline
from shared.engine.pipeline.decide import Progress
from shared.events import model as ev
from shared.events.classes import ENDS_LEASE
from shared.events.command import Command
from shared.events.record import Epoch, Record
from shared.events.run_index import RUN, frame_of, is_frame, is_run
from shared.events.stamp import seconds


class History(Struct, frozen=True):
    """What counts of a run, in log order; `epoch` is the highest that has held it, `lost` are the leases before it that
    were lost in a row, `released` those that were handed back; `held`: the lease under `epoch` has not ended."""

    events: tuple[ev.Event, ...] = ()
    epoch: Epoch = NOBODY
    over: bool = False
    began: float | None = None
    lost: tuple[Lost, ...] = ()
    held: bool = False
    released: Released = Released()

    def progress(self, step: Step, start: Progress) -> Progress:
        for event in self.events:
            start = pipeline.evolve(step, start, event)
        return start


def known(command: Command, *, in_local: bool = False) -> Known:
    """The run of a command, as far as its worker knows it. `in_local`: it is an iteration of a local loop, which is
    held as a whole; of another loop nobody may claim that."""
    if command.local is not None:
        return Known(command.step, command.pool, True, local=True, begun=command.count)
    if is_frame(command.index):
        asked = frame_of(command.index) + 1
        return Known(command.step, command.pool, True, local=False, frames=asked, rows=command.count)
    return Known(command.step, command.pool, not is_run(command.index), local=in_local)


def accept(records: Iterable[Record], run_id: str, index: int, known: Known | None = None) -> History:
    """Without `known` every record of the run fits."""
    fold = RunFold(run_id, index, known)
    for record in records:
        fold.take(record)
    return fold.history


class RunFold:
    """What counts of one run or iteration (`leases/fence.py`): give it the records in order. The end of a wait is the
    scheduler's and counts as it is."""

    def __init__(self, run_id: str, index: int, known: Known | None = None) -> None:
        self._run_id, self._index, self._known = run_id, index, known
        self._counted = Counted()
        self.held = False
        self._kept: list[ev.Event] = []
        self._began: float | None = None
        self._leases = Leases()

    @property
    def epoch(self) -> Epoch:
        return self._counted.epoch

    @property
    def over(self) -> bool:
        return self._counted.over

    @property
    def history(self) -> History:
        leases = self._leases
        return History(
            tuple(self._kept), self.epoch, self.over, self._began, leases.lost, self.held, leases.released)

    def take(self, record: Record) -> bool:
        """Whether it counts for this run."""
        lease = record.lease
        if self.over:
            return False
        if lease is None:
            resumes = [event for event in record.events if _resumes(event, self._run_id, self._index)]
            self._kept += resumes
            return bool(resumes)
        if lease.run_id != self._run_id or lease.index not in (self._index, RUN):
            return False
        if self._known is not None and misfit(0, record, self._known):
            return False
        if lease.index != self._index:
            self._counted.claimed(lease.epoch)
            if lease.epoch == self.epoch:
                self._leave_open(record)
            return False
        if not self._counted.take(record):
            return False
        self._leave_open(record)
        self._began = self._began or seconds(record.ts)
        self._kept += record.events
        self._leases.take(record)
        return True

    def _leave_open(self, record: Record) -> None:
        self.held = not isinstance(record.events[-1], ENDS_LEASE)

    def progressed(self) -> None:
        """An iteration of the loop did."""
        self._leases.progress()


def _resumes(event: ev.Event, run_id: str, index: int) -> bool:
    return isinstance(event, ev.TaskResumed) and (event.run_id, event.index) == (run_id, index)
