"""The order of a recording: a decider takes its turn at the time of its record, and gets to see what it had read then.
Once a rehearsal has gone another way, its decisions come at once."""

from collections import deque
from collections.abc import Sequence

from shared.answers.rehearsal.order import Act, Ready
from shared.answers.replay.recording import TICK_S, Recording, Turn

DECIDERS: tuple[Act, ...] = ("router", "scheduler")


class Recorded:
    """A chooser. The first decision of the router is the request's."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._turns: dict[Act, deque[Turn]] = {
            "router": deque(recording.turns["router"][1:]), "scheduler": deque(recording.turns["scheduler"]),
        }
        self._now = recording.start

    def choose(self, ready: Sequence[Ready], now: float) -> int | None:
        """Commands are taken at once: when a run continues follows from the end of its call."""
        self._now = now
        taken = next((at for at, each in enumerate(ready) if each.act == "take"), None)
        if taken is not None:
            return taken
        times = [(time, at) for at, each in enumerate(ready) if (time := self._time(each)) <= now + TICK_S / 2]
        return min(times)[1] if times else None

    def _time(self, each: Ready) -> float:
        """When it happened; what did not happen at all does not happen by itself either."""
        if each.act in DECIDERS:
            turns = self._turns[each.act]
            return turns[0].at if turns else each.since
        if each.act == "stop":
            stopped = self._recording.stopped(each.run_id)
            return float("inf") if stopped is None else stopped
        return each.since

    def due(self, now: float) -> float | None:
        times = [turns[0].at for turns in self._turns.values() if turns and turns[0].at > now + TICK_S / 2]
        return min(times, default=None)

    def portion(self, act: Act, times: Sequence[float]) -> int:
        turns = self._turns[act]
        return sum(time <= turns[0].read + TICK_S / 2 for time in times) if turns else len(times)

    def made(self, act: Act) -> None:
        turns = self._turns[act]
        if turns:
            turns.popleft()
        while turns and turns[0].at <= self._now + TICK_S / 2:
            turns.popleft()
