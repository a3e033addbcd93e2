"""The order of a recording: a decider takes its turn when everything has happened that it had read when it decided, and
nothing else. Once a rehearsal has gone another way, what is left of the order still says who waits for whom."""

from collections.abc import Sequence

from shared.engine.rehearsal_order import Act, Ready
from shared.engine.replay_recording import TICK_S, Recording, Turn

ACTS = ("input", "work")


class Recorded:
    """A chooser. The first decision of the router is the request's."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._turns: dict[Act, list[Turn]] = {
            "router": recording.turns["router"][1:], "scheduler": list(recording.turns["scheduler"]),
        }

    def choose(self, ready: Sequence[Ready], now: float, due: float | None) -> int | None:
        for act in ("take", "router", "scheduler"):
            for at, each in enumerate(ready):
                if each.act == act and (act == "take" or self._may_decide(each, ready, due)):
                    return at
        for at, each in enumerate(ready):
            if each.act == "stop" and self._may_stop(each, now):
                return at
        acting = [at for at, each in enumerate(ready) if each.act in ACTS]
        return min(acting, key=lambda at: ready[at].since, default=None)

    def _may_decide(self, each: Ready, ready: Sequence[Ready], due: float | None) -> bool:
        turns = self._turns[each.act]
        if not turns:
            return True
        read = turns[0].read + TICK_S / 2
        if due is not None and due <= read:
            return False
        other: Act = "scheduler" if each.act == "router" else "router"
        for rival in ready:
            if rival.act in ACTS and rival.since <= read:
                return False
            if rival.act == other and self._turns[other] and self._turns[other][0].at <= read:
                return False
        return True

    def _may_stop(self, each: Ready, now: float) -> bool:
        at = self._recording.stopped(each.run_id)
        return at is not None and at <= now + TICK_S / 2

    def portion(self, count: int) -> int:
        return count

    def made(self, act: Act) -> None:
        if self._turns.get(act):
            self._turns[act].pop(0)
