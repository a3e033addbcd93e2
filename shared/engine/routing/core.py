"""The router for the shell: it listens to workers and the scheduler, and routes."""

from collections.abc import Iterable, Sequence
from typing import Any

from shared.bus import topology
from shared.engine import control, routing
from shared.engine.execution import LIVE, Execution, evolve, is_over
from shared.events.model import Event
from shared.events.record import Record, Writer
from shared.runtime.core import Entry, Outgoing
from shared.runtime.plans import Plans


class RouterCore:
    writer: Writer = "router"
    listens: tuple[Writer, ...] = ("worker", "scheduler", "waiting", "control")
    bucket = topology.CTX
    kind = Execution

    def __init__(self, plans: Plans) -> None:
        self._plans = plans

    def empty(self, execution_id: str) -> Execution:
        return Execution(execution_id)

    def first(self, record: Record) -> bool:
        return False

    def fold(self, state: Execution, records: Sequence[Entry]) -> Execution:
        for seq, record in records:
            state = evolve(state, record, seq)
        return state

    def stale(self, state: Execution, records: Sequence[Entry]) -> bool:
        """A report about a run that was never scheduled as far as this state knows."""
        return any(
            _number(run_id) > state.counts.get(run_id.rpartition(":")[0], 0)
            for _, record in records
            for run_id in _runs(record)
        )

    def decide(self, state: Execution, now: float, values: dict[str, Any]) -> list[Event]:
        if state.status not in LIVE:
            return []
        return routing.decide(self._plans(state.digest), state, now, values)

    def due(self, state: Execution) -> float | None:
        return control.due(state)

    def outgoing(
        self, state: Execution, records: Sequence[Entry], values: dict[str, Any], horizon: int
    ) -> list[Outgoing]:
        own = [record for _, record in records if record.writer == self.writer]
        return list(routing.told(state)) if own else []

    def recover(self, state: Execution, values: dict[str, Any]) -> list[Outgoing]:
        return list(routing.told(state))

    def over(self, state: Execution) -> bool:
        return is_over(state)

    def keep(self, state: Execution) -> bool:
        """Its next decision may follow from time alone."""
        return control.due(state) is not None


def _runs(record: Record) -> Iterable[str]:
    if record.lease is not None:
        return (record.lease.run_id,)
    return [run_id for event in record.events if (run_id := getattr(event, "run_id", ""))]


def _number(run_id: str) -> int:
    return int(run_id.rpartition(":")[2])
