"""What the log says of a local loop that may have been held before."""

from collections.abc import Iterable

from msgspec import Struct

from shared.engine.held import Fence, History
from shared.events import model as ev
from shared.events.index import RUN
from shared.events.record import Epoch, Record

OVER = ev.LoopDone | ev.StepFailed | ev.StepCancelled | ev.NextSelected


class LoopHistory(Struct, frozen=True):
    """`begun` are iterations that have not ended, `ended` the last words of the others, in the order of the log;
    `paused`: the execution is."""

    epoch: Epoch = (0, 0)
    over: bool = False
    paused: bool = False
    begun: dict[int, History] = {}
    ended: tuple[tuple[int, ev.Event], ...] = ()


def accept_loop(records: Iterable[Record], run_id: str) -> LoopHistory:
    """Of records of the router, the scheduler and iterations."""
    whole, over, paused = Fence(run_id, RUN), False, False
    fences: dict[int, Fence] = {}
    ended: list[tuple[int, ev.Event]] = []
    for record in records:
        lease = record.lease
        if lease is None:
            for event in record.events:
                over = over or (isinstance(event, OVER) and event.run_id == run_id)
                if isinstance(event, ev.PlaybookPaused | ev.PlaybookResumed | ev.PlaybookCompensating):
                    paused = isinstance(event, ev.PlaybookPaused)
        elif lease.run_id == run_id and lease.index == RUN:
            whole.take(record)
        elif lease.run_id == run_id and lease.epoch >= whole.epoch:
            fence = fences.setdefault(lease.index, Fence(run_id, lease.index))
            was_over = fence.over
            fence.take(record)
            if fence.over and not was_over:
                ended.append((lease.index, record.events[-1]))
    begun = {index: fence.history for index, fence in fences.items() if not fence.over}
    return LoopHistory(whole.epoch, over or whole.over, paused, begun, tuple(ended))
