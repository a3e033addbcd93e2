"""The router as a core: it listens to workers and the scheduler, and routes."""

from collections.abc import Callable, Iterable, Sequence

from shared.dsl.model.plan import Plan
from shared.engine.leases.lease_fit import was_scheduled
from shared.engine.routing import cancel_and_pause
from shared.engine.routing import decide as routing
from shared.engine.routing import state as execution
from shared.engine.routing.state import LIVE, Execution, evolve, is_over
from shared.engine.values.stored_values import Values
from shared.events.model import Event
from shared.events.note import Note
from shared.events.readers import INPUTS, Decider
from shared.events.record import Entry, Record, Writer

Plans = Callable[[str], Plan]


class RouterCore:
    writer: Decider = "router"
    listens: tuple[Writer, ...] = INPUTS["router"]
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
        return any(not was_scheduled(state.counts, run_id) for _, record in records for run_id in _runs(record))

    def unfit(self, state: Execution, entry: Entry) -> str:
        return execution.unfit(state, entry[1], entry[0])

    def decide(self, state: Execution, now: float, values: Values) -> list[Event]:
        if state.status not in LIVE:
            return []
        return routing.decide(self._plans(state.digest), state, now, values)

    def due(self, state: Execution) -> float | None:
        return cancel_and_pause.due(state)

    def outgoing(self, state: Execution, records: Sequence[Entry], values: Values, horizon: int) -> list[Note]:
        own = any(record.writer == self.writer for _, record in records)
        return list(routing.told(state)) if own else []

    def recover(self, state: Execution, values: Values) -> list[Note]:
        return list(routing.told(state))

    def over(self, state: Execution) -> bool:
        return is_over(state)

    def keep(self, state: Execution) -> bool:
        """Its next decision may follow from time alone."""
        return cancel_and_pause.due(state) is not None


def _runs(record: Record) -> Iterable[str]:
    if record.lease is not None:
        return (record.lease.run_id,)
    return [run_id for event in record.events if (run_id := getattr(event, "run_id", ""))]
