"""A decider of a rehearsal: a core of the engine with its folded state and its place in the log. As in the services,
inputs are folded by sequence and an own record at once."""

from collections.abc import Sequence
from typing import Generic

from shared.engine.core import Core, S
from shared.engine.values.stored_values import Values
from shared.events.model import Event
from shared.events.readers import FOLDED
from shared.events.record import Entry


class Desk(Generic[S]):
    """`unread` is what came since its last turn; `looked` when it last found nothing to decide
    in the state that it has."""

    def __init__(self, core: Core[S], execution_id: str) -> None:
        self.core = core
        self.state = core.empty(execution_id)
        self._execution_id = execution_id
        self.unread: list[Entry] = []
        self.looked = float("-inf")

    def hear(self, entry: Entry) -> None:
        if entry[1].writer in self.core.listens:
            self.unread.append(entry)

    def due(self) -> float | None:
        """When it is to be asked again though nothing came."""
        due = self.core.due(self.state)
        return due if due is not None and due > self.looked else None

    def read(self, count: int) -> list[Entry]:
        """Folds the next of what it has not read."""
        news, self.unread = self.unread[:count], self.unread[count:]
        self.fold(news)
        return news

    def fold(self, entries: Sequence[Entry]) -> None:
        self.state = self.core.fold(self.state, entries)
        self.looked = float("-inf")

    def decide(self, now: float, values: Values) -> list[Event]:
        return self.core.decide(self.state, now, values)

    def restart(self, entries: Sequence[Entry]) -> None:
        """Throws the state away and folds it again from the log, up to what it had read."""
        left = {seq for seq, _ in self.unread}
        self.state = self.core.empty(self._execution_id)
        mine = FOLDED[self.core.writer]
        self.fold([entry for entry in entries if entry[1].writer in mine and entry[0] not in left])
