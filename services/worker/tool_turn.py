"""The turn of a run at the tool of its next task, for kinds that make a limited number of calls at a time. A run gets
it before anything is noted of the task: until then the run waits in line, and a line that does not move is left for the
queue."""

import asyncio
from collections.abc import Callable, Mapping

from shared.bus.ports import Clock
from shared.dsl.model.plan import Task
from shared.errors import Signal
from shared.events.beat import Calling
from shared.events.command import Command
from shared.tools.base.turns import NoTurn, in_a_hurry
from shared.tools.toolbox import Tools

FIRST_DELAY_S = 0.25  # before a run that found no turn is delivered again; twice as long each time
MAX_DELAY_S = 2.0


class NoRoom(Signal):
    """Another worker may have room, or this one later. `begun`: the log knows of the lease."""

    def __init__(self, kind: str, *, begun: bool, deliveries: int) -> None:
        super().__init__(f"no turn at kind {kind}")
        self.begun = begun
        self.delay = min(MAX_DELAY_S, FIRST_DELAY_S * 2.0 ** min(deliveries - 1, 10))


def is_patient(index: int, since: Mapping[int, float | None]) -> bool:
    """Whether an iteration of a local loop stays in line. The loop can leave the worker only as a whole: it stays while
    one of its iterations is at work. When all wait, the one that has waited longest decides for all of them. `since`
    says since when each waits in line, in the order they were begun; None: it does not wait."""
    waiting = {other: at for other, at in since.items() if at is not None}
    return len(waiting) < len(since) or min(waiting, key=lambda other: waiting[other]) != index


class Turn:
    """`patient` says whether it waits although the line does not move; `first`: at the head of the line, once. `since`
    is since when it waits in line."""

    def __init__(
        self, tools: Tools, clock: Clock, command: Command, deliveries: int,
        patient: Callable[[], bool] = in_a_hurry, *, first: bool = False,
    ) -> None:
        self._tools, self._clock, self._command = tools, clock, command
        self._deliveries, self._patient = deliveries, patient
        self._number = 0
        self.first = first
        self._kind = ""
        self.waited = 0.0
        self.since: float | None = None

    def is_needed(self, task: Task) -> bool:
        return self._tools.turns(task.kind) is not None

    async def take(self, task: Task, *, begun: bool) -> None:
        """Does not wait if it has one already, or the kind has no turns."""
        turns = self._tools.turns(task.kind)
        if turns is None or self._number:
            return
        now = asyncio.get_running_loop().time
        self.since = since = now()
        self._tools.under_way += 1
        try:
            self._number = await turns.take(lambda: self._about(task), patient=self._patient, first=self.first)
        except NoTurn:
            raise NoRoom(task.kind, begun=begun, deliveries=self._deliveries) from None
        finally:
            self._tools.under_way -= 1
            self.since = None
        self._kind, self.waited, self.first = task.kind, now() - since, False

    async def come_up(self, task: Task) -> None:
        """Waits in line until it is its turn, and leaves the turn to the next: the run has to be claimed first, which
        takes time. Then it goes to the head of the line."""
        await self.take(task, begun=False)
        self.first = self._number > 0
        self.leave()

    def leave(self) -> None:
        if self._number:
            turns = self._tools.turns(self._kind)
            assert turns is not None
            turns.leave(self._number)
        self._number, self.waited = 0, 0.0

    def _about(self, task: Task) -> Calling:
        command = self._command
        return Calling(
            command.execution_id, command.run_id, command.index, command.step, task.name, self._clock.now())
