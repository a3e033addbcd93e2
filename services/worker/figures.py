"""What a worker tells of itself."""

from collections.abc import Callable, Iterator

from services.worker.counts import Counts
from services.worker.presence import Presence
from shared.runtime.service import metric_names as names
from shared.runtime.service.metrics import Sample
from shared.runtime.service.settings import Settings
from shared.tools.toolbox import Tools


class Figures:
    """`holding` says how many runs it has in hand."""

    def __init__(
        self, settings: Settings, counts: Counts, tools: Tools, presence: Presence, holding: Callable[[], int]
    ) -> None:
        self._settings, self._counts, self._tools = settings, counts, tools
        self._presence, self._holding = presence, holding

    def samples(self) -> Iterator[Sample]:
        counts, pool = self._counts, self._settings.pool
        yield Sample(names.SLOTS, self._settings.slots, (pool,))
        yield Sample(names.SLOTS_TAKEN, self._holding(), (pool,))
        yield Sample(names.CALLS, self._tools.under_way, (pool,))
        yield Sample(names.TAKEN, counts.taken, (pool,))
        yield Sample(names.REDELIVERIES, counts.again, (pool,))
        yield Sample(names.FENCED, counts.lost, (pool,))
        yield Sample(names.HANDED_BACK, counts.handed_back, (pool,))
        yield Sample(names.CRASHED, counts.crashed, (pool,))
        yield Sample(names.ABSENCES, self._presence.absences(), (pool,))
        yield Sample(names.STAGE, counts.queued, ("queue",))
        for kind, took in counts.calls.items():
            yield Sample(names.TASK, took, (pool, kind))
            yield Sample(names.TASK_FAILED, counts.errors[kind], (pool, kind))
