"""The two deciders of a rehearsal, each with its folded state and its place in the log. As in the services, inputs are
folded by sequence and an own record at once."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from shared.dsl.plan import Plan
from shared.engine import control, routing, schedule, scheduling
from shared.engine.execution import LIVE, Execution, evolve
from shared.engine.rehearsal_types import Entry
from shared.engine.schedule import Schedule
from shared.events import model as ev
from shared.events.record import Writer

PlanOf = Callable[[str], Plan]


class Side(Protocol):
    """A decider's state; it knows its own last event, and the last input it has folded."""

    writer: Writer
    listens: tuple[Writer, ...]

    @property
    def n(self) -> int: ...

    @property
    def as_of(self) -> int: ...

    def fold(self, entries: Sequence[Entry]) -> None: ...

    def decide(self, now: float, values: dict[str, Any]) -> list[ev.Event]: ...

    def due(self) -> float | None: ...

    def forget(self) -> None: ...


class RouterSide:
    writer: Writer = "router"
    listens: tuple[Writer, ...] = ("worker", "scheduler", "waiting", "control")

    def __init__(self, execution_id: str, plan_of: PlanOf) -> None:
        self.state, self._plan_of = Execution(execution_id), plan_of

    @property
    def n(self) -> int:
        return self.state.n

    @property
    def as_of(self) -> int:
        return self.state.as_of

    def fold(self, entries: Sequence[Entry]) -> None:
        for seq, record in entries:
            self.state = evolve(self.state, record, seq)

    def decide(self, now: float, values: dict[str, Any]) -> list[ev.Event]:
        if self.state.status not in LIVE:
            return []
        return routing.decide(self._plan_of(self.state.digest), self.state, now, values)

    def due(self) -> float | None:
        return control.due(self.state)

    def forget(self) -> None:
        self.state = Execution(self.state.execution_id)


class SchedulerSide:
    writer: Writer = "scheduler"
    listens: tuple[Writer, ...] = ("router", "iteration", "waiting", "control")

    def __init__(self, execution_id: str, plan_of: PlanOf) -> None:
        self.state, self.plan_of = Schedule(execution_id), plan_of

    @property
    def n(self) -> int:
        return self.state.n

    @property
    def as_of(self) -> int:
        return self.state.as_of

    def fold(self, entries: Sequence[Entry]) -> None:
        self.state = schedule.evolve(self.state, list(entries))

    def decide(self, now: float, values: dict[str, Any]) -> list[ev.Event]:
        return scheduling.decide(self.plan_of, self.state, now, values)

    def due(self) -> float | None:
        return scheduling.due(self.state)

    def forget(self) -> None:
        self.state = Schedule(self.state.execution_id)


class Desk:
    """`unread` is what came since its last turn; `looked` when it last found nothing to decide."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.unread: list[Entry] = []
        self.looked = float("-inf")

    def hear(self, entry: Entry) -> None:
        if entry[1].writer in self.side.listens:
            self.unread.append(entry)

    def due(self) -> float | None:
        """When it is to be asked again though nothing came."""
        due = self.side.due()
        return due if due is not None and due > self.looked else None

    def read(self, count: int) -> list[Entry]:
        """Folds the next of what it has not read."""
        news, self.unread = self.unread[:count], self.unread[count:]
        self.side.fold(news)
        return news

    def restart(self, entries: Sequence[Entry]) -> None:
        """Throws the state away and folds it anew from the log, up to what it had read."""
        left = {seq for seq, _ in self.unread}
        known = (*self.side.listens, self.side.writer)
        self.side.forget()
        self.side.fold([entry for entry in entries if entry[1].writer in known and entry[0] not in left])
