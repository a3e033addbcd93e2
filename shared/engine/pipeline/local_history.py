"""What the log says of a local loop that may have been held before."""

from collections.abc import Iterable

from msgspec import Struct

from shared.engine.leases.fence import NOBODY, is_outranked
from shared.engine.leases.lease_fit import Known, misfit
from shared.engine.leases.lost_leases import PROGRESS, Lost, Released
from shared.engine.pipeline.history import History, RunFold
from shared.events import model as ev
from shared.events.classes import ENDS_RUN
from shared.events.record import Epoch, Record
from shared.events.run_index import RUN, is_run


class LoopHistory(Struct, frozen=True):
    """`begun` are iterations that have not ended, `ended` the last events of the others, in the order of the log;
    `paused`: the execution is; `lost` and `released`: leases of the whole loop, in a row; `held`: its lease under
    `epoch` is open."""

    epoch: Epoch = NOBODY
    over: bool = False
    paused: bool = False
    begun: dict[int, History] = {}
    ended: tuple[tuple[int, ev.Event], ...] = ()
    lost: tuple[Lost, ...] = ()
    held: bool = False
    released: Released = Released()


def accept_loop(records: Iterable[Record], run_id: str, known: Known | None = None) -> LoopHistory:
    """Of records of the router, the scheduler and iterations. Without `known` every one of them fits."""
    whole, over, paused = RunFold(run_id, RUN, known), False, False
    folds: dict[int, RunFold] = {}
    ended: list[tuple[int, ev.Event]] = []
    for record in records:
        lease = record.lease
        if lease is None:
            for event in record.events:
                over = over or (isinstance(event, ENDS_RUN) and event.run_id == run_id)
                if isinstance(event, ev.PlaybookPaused | ev.PlaybookResumed | ev.PlaybookCompensating):
                    paused = isinstance(event, ev.PlaybookPaused)
        elif known is not None and misfit(0, record, known):
            continue
        elif lease.run_id == run_id and is_run(lease.index):
            whole.take(record)
        elif lease.run_id == run_id and not is_outranked(lease, whole.epoch):
            fold = folds.setdefault(lease.index, RunFold(run_id, lease.index))
            if not fold.take(record):
                continue
            if any(isinstance(event, PROGRESS) for event in record.events):
                whole.progressed()
            if fold.over:
                ended.append((lease.index, record.events[-1]))
    begun = {index: fold.history for index, fold in folds.items() if not fold.over}
    found = whole.history
    return LoopHistory(
        whole.epoch, over or whole.over, paused, begun, tuple(ended), found.lost, whole.held, found.released)
