"""Which rows a batch of records may change."""

from msgspec import Struct

from shared.answers.readmodel.rows import CtxKey, LoopKey, RunKey
from shared.events import model as ev
from shared.events.record import Record
from shared.events.run_index import RUN, is_frame, is_iteration


class Touched(Struct):
    """The keys of the rows a batch may change."""

    executions: set[str] = set()
    runs: set[RunKey] = set()
    loops: set[LoopKey] = set()
    ctx: set[CtxKey] = set()

    def add(self, record: Record) -> None:
        self.executions.add(record.execution_id)
        if record.lease is not None:
            if is_frame(record.lease.index):
                return
            self._loop(record.execution_id, record.lease.run_id)
            self._run(record.execution_id, record.lease.run_id, record.lease.index)
            return
        for event in record.events:
            self._decided(record.execution_id, event)

    def _decided(self, execution: str, event: ev.Event) -> None:
        match event:
            case ev.CtxPatched(patch=patch) | ev.PlaybookRestored(ctx=patch):
                self.ctx.update((execution, key) for key in patch)
            case ev.IterationFailed(run_id=run_id, index=index) | ev.TaskResumed(run_id=run_id, index=index):
                self._run(execution, run_id, index)
            case ev.NextSelected(run_id=run_id):
                self._run(execution, run_id)
            case ev.StepScheduled(run_id=run_id, loop=False):
                self._run(execution, run_id)
            case ev.StepScheduled(run_id=run_id) | ev.StepFailed(run_id=run_id) | ev.StepCancelled(run_id=run_id):
                self._loop(execution, run_id)
            case ev.LoopStarted() | ev.IterationStarted() | ev.LoopDone():
                self._loop(execution, event.run_id)

    def _loop(self, execution: str, run_id: str) -> None:
        self._run(execution, run_id)
        self.loops.add((execution, run_id))

    def _run(self, execution: str, run_id: str, index: int = -1) -> None:
        self.runs.add((execution, run_id, index))
        if is_iteration(index):
            self.loops.add((execution, run_id))
            self.runs.add((execution, run_id, RUN))
