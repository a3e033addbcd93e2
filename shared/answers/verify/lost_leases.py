"""A run that failed because its workers were lost: the log shows the leases."""

from collections.abc import Iterable
from typing import Any

from shared.answers.history.history import Held, History, Key, PlanOf, Violation
from shared.engine.leases.lost_leases import PROGRESS, Leases, failure
from shared.events import model as ev
from shared.events.failure import WORKER_LOST, kind_of
from shared.events.record import Record
from shared.events.run_index import is_iteration, is_run


def check_leases(history: History, plan_of: PlanOf) -> Iterable[Violation]:
    for key, held in history.held.items():
        error = _error(held)
        if error is None or kind_of(error) != WORKER_LOST or key.run_id not in history.scheduled:
            continue
        event = history.scheduled[key.run_id][1]
        step = plan_of(event.digest).steps.get(event.step) if event.digest else None
        right = failure(_lost(history, key, held), step.max_leases) if step is not None else None
        if right is None or error.get("leases") != right["leases"]:
            yield Violation("lease", f"{key} failed for lost leases that the log does not show so", held.kept[-1][0])


def _error(held: Held) -> dict[str, Any] | None:
    match held.kept[-1][1].events[-1] if held.kept else None:
        case ev.StepFailed(error=error) | ev.IterationFailed(error=error) | ev.FrameFailed(error=error):
            return error
        case ev.LoopHalted(error=error):
            return error
    return None


def _lost(history: History, key: Key, held: Held) -> tuple[Any, ...]:
    """As whoever wrote the last record had counted them. What the iterations of a local loop finished counts for it."""
    leases = Leases()
    for record in _about(history, key, held):
        assert record.lease is not None
        if record.lease.index == key.index:
            leases.take(record)
        elif any(isinstance(event, PROGRESS) for event in record.events):
            leases.progress()
    return leases.lost


def _about(history: History, key: Key, held: Held) -> Iterable[Record]:
    entries = list(held.kept)
    if is_run(key.index):
        entries += [entry for other, part in history.held.items()
                    if other.run_id == key.run_id and is_iteration(other.index) for entry in part.kept]
    return [record for _, record in sorted(entries, key=lambda entry: entry[0])]
