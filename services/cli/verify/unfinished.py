"""Looks at executions that are not over, more than once, until it is certain that something moves each of them or that
nothing will."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable

from services.cli.why.many import Ask, look
from shared.answers.history.history import Violation
from shared.answers.why.facts import Answer
from shared.answers.why.stuck import Doubt, doubts, finding, patience
from shared.bus.jetstream import JetStreamBus

LOOK_S = 5.0
MAX_LOOKS = 15          # enough for the slowest repair, twice
MAX_WATCHED = 2000      # executions


class _Watched:
    """An execution with what is in doubt about it, since when."""

    def __init__(self) -> None:
        self.since: dict[Doubt, float] = {}
        self._last: int | None = None

    def certain(self, answer: Answer, now: float) -> list[Violation]:
        """Doubts that are resolved. An execution that proceeds is not in doubt."""
        went_on = self._last is not None and answer.as_of != self._last
        present = {} if went_on else doubts(answer)
        self._last = answer.as_of
        self.since = {doubt: self.since.get(doubt, now) for doubt in present}
        return [finding(answer.execution_id, answer.as_of, doubt, present[doubt], now - since)
                for doubt, since in self.since.items() if now - since >= patience(present[doubt])]


class Watch:
    """`look` gives someone to ask, who may remember what is around for as long as one look takes."""

    def __init__(
        self, look: Callable[[], Ask], now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._look, self._now, self._sleep = look, now, sleep

    async def stuck(self, executions: Iterable[str]) -> dict[str, list[Violation]]:
        """What nothing will move of these."""
        watched = {execution_id: _Watched() for execution_id in executions}
        found: dict[str, list[Violation]] = {}
        for _ in range(MAX_LOOKS):
            ask = self._look()
            for execution_id, one in list(watched.items()):
                answer = await ask(execution_id)
                certain = one.certain(answer, self._now()) if answer is not None else []
                if certain:
                    found[execution_id] = certain
                if certain or not one.since:
                    del watched[execution_id]
            if not watched:
                break
            await self._sleep(LOOK_S)
        return found


def watch(bus: JetStreamBus, partitions: int) -> Watch:
    return Watch(lambda: look(bus, partitions))
