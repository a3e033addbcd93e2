"""What a worker counts while it works (`shared/runtime/service/metrics.py`)."""

from shared.events.outcome import Outcome
from shared.runtime.service.durations import Durations
from shared.tools.base.contract import Waits


class Counts:
    """`queued`: from when the broker had a command until it came here; `calls` and `errors` by kind of tool."""

    def __init__(self) -> None:
        self.taken = self.again = self.lost = self.handed_back = self.crashed = 0
        self.queued = Durations()
        self.calls: dict[str, Durations] = {}
        self.errors: dict[str, int] = {}

    def took(self, epoch: tuple[int, int], now: float) -> None:
        """A delivery. Of one that comes again it is not known since when it waits."""
        self.taken += 1
        if epoch[1] > 1:
            self.again += 1
        else:
            self.queued.add(max(0.0, now - epoch[0] / 1e9))

    def called(self, kind: str, seconds: float, outcome: Outcome | Waits | None) -> None:
        """A call that has ended; None: it took too long."""
        if kind not in self.calls:
            self.calls[kind], self.errors[kind] = Durations(), 0
        self.calls[kind].add(seconds)
        if outcome is None or (isinstance(outcome, Outcome) and outcome.status == "error"):
            self.errors[kind] += 1
