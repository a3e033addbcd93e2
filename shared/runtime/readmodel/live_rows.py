"""Rows that need not be read back: those of executions that this projector has seen from their first record on.

1. They are those of one partition at one sequence (`seq`): what the read model holds there, since rows follow from the
   log alone. They are used only under the lock of a cursor that is there too, whoever has written up to it. When the
   cursor is anywhere else, they are forgotten.
2. Of an execution all step-runs, iterations and loops are held, or none: one that is not held does not exist. So an
   execution that PostgreSQL had before is never held, one with too many rows not any more, and one in which a statement
   changed rows by itself (`Ending`) neither.
3. An execution that is over is not held: `noetlctl admin purge` may remove its rows.
4. They change when a transaction is over, not within it, and are copied before the fold gets them.
5. What the fold does not read is not kept, as when a row is read back: results may be large. Nor is ctx.
"""

from collections.abc import Iterable

from msgspec import Struct

from shared.answers.readmodel.fold import LIVE
from shared.answers.readmodel.rows import Execution, Loop, LoopKey, Rows, Run, RunKey

MAX_ROWS = 20_000  # of a partition; somewhat over half a kilobyte each
MAX_ROWS_OF_ONE = 2_000


class Held(Struct):
    """What there is of one execution."""

    execution: Execution
    runs: dict[RunKey, Run] = {}
    loops: dict[LoopKey, Loop] = {}

    @property
    def size(self) -> int:
        return 1 + len(self.runs) + len(self.loops)


class LiveRows:
    def __init__(self) -> None:
        self.seq = 0
        self._held: dict[str, Held] = {}
        self._size = 0

    def at(self, seq: int) -> "LiveRows":
        """What is held there: nothing, if it was somewhere else."""
        if seq != self.seq:
            self.seq, self._size = seq, 0
            self._held.clear()
        return self

    def of(self, execution_id: str) -> Held | None:
        return self._held.get(execution_id)

    def moved(self, seq: int) -> None:
        """Nothing was written up to there."""
        self.seq = seq

    def committed(self, rows: Rows, new: Iterable[str], seq: int) -> None:
        """These were written, and are handed over; the `new` executions were not there before."""
        self.seq = seq
        ended = {ending.execution_id for ending in rows.endings}
        held = {eid: Held(rows.executions[eid]) for eid in new}
        for eid in rows.executions.keys() & self._held.keys():
            held[eid] = self._held.pop(eid)
            self._size -= held[eid].size
        for eid, each in held.items():
            each.execution = _slim(rows.executions[eid])
        for key, run in rows.runs.items():
            if key[0] in held:
                run.result = run.result_ref = run.error = None
                held[key[0]].runs[key] = run
        for place, loop in rows.loops.items():
            if place[0] in held:
                held[place[0]].loops[place] = loop
        for eid, each in held.items():
            if each.execution.status in LIVE and eid not in ended and each.size <= MAX_ROWS_OF_ONE:
                self._held[eid] = each
                self._size += each.size
        self._shrink()

    def _shrink(self) -> None:
        """The ones that have had no news for the longest time go first."""
        while self._size > MAX_ROWS:
            self._size -= self._held.pop(next(iter(self._held))).size


def _slim(row: Execution) -> Execution:
    row.workload = row.result = row.result_ref = row.error = row.labels = row.parent_id = row.finished_at = None
    return row
