"""The router as a core: what it hears and decides for one execution. Begin reading the room here.

Theory of operation
-------------------
The router holds the thread of an execution: which steps it has entered, with what arguments, what they left in ctx, and
how it ends. It calls no tool and knows nothing of queues; loops and waits are the scheduler's.

1. *Tokens and runs are the whole future.* A token is on a step and makes it run. Entering a step consumes its tokens
   and makes a run (`step.scheduled`). The end of a run is routed once (`next.selected`): that removes the run and puts
   a token on the target of each arc it selects. With no token and no run left the execution is completed; nothing else
   says so.
2. *How a run ends* (`state.py`). A plain run ends by its worker's report, a loop by the scheduler's `loop.done`; the
   scheduler also fails what is over its time. The first end in the log that counts is the end. Any later one changes
   nothing, so a worker that comes back from the dead cannot undo what was routed.
3. *One decision does all that follows* (`decide.py`), in one record: wishes of people, then every run that has ended in
   log order, then every step that can be entered. It is atomic because it is one message; the broker accepts it only
   behind the last decision that this router knows, so two routers of one partition cannot both continue it.
4. *Everything is derived from state and time.* Ids are counted (`t3`, `load:2`), not drawn. Whoever folds the
   same records and decides as of the same time gets the same decision: `verify` does that for a whole history.
5. *What a step reads is frozen when it is scheduled*: args and the part of ctx, workload and results that its templates
   name are in `step.scheduled`. What it writes to ctx comes with its end and becomes `ctx.patched` here. Only the
   router writes ctx, so its order is that of the router's records.
6. *Where tokens meet*, `joins.py` says which enter. *Endings* other than completion are in `compensation.py`, cancel
   and pause in `cancel_and_pause.py`.
7. *A parent that waits* learns of the end of its child by a note that follows from the child's last state. It is sent
   again on every load; the parent's fold uses the first.

What must never happen: a token is lost, so that the execution never ends; a run is routed twice, so that its successors
run twice; an execution fails or is cancelled and ends before all that the log shows as done was compensated. The first
two hold because one record consumes and makes tokens and runs together; for the third see `compensation.py`.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from shared.dsl.model.plan import Plan
from shared.engine.leases.lease_fit import was_scheduled
from shared.engine.routing import cancel_and_pause
from shared.engine.routing import decide as routing
from shared.engine.routing import state as execution
from shared.engine.routing.parent_notes import parent_notes
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

    def fold(self, state: Execution, records: Sequence[Entry], fitting: set[int] | None = None) -> Execution:
        for seq, record in records:
            state = evolve(state, record, seq, fitting)
        return state

    def stale(self, state: Execution, records: Sequence[Entry]) -> bool:
        """A report about a run that this state has never seen scheduled."""
        for _, record in records:
            lease = record.lease
            for run_id in (lease.run_id,) if lease is not None else _runs(record):
                if run_id not in state.runs and not was_scheduled(state.counts, run_id):
                    return True
        return False

    def unfit(self, state: Execution, entry: Entry, fitting: Collection[int] = ()) -> str:
        return "" if entry[0] in fitting else execution.unfit(state, entry[1], entry[0])

    def decide(self, state: Execution, now: float, values: Values) -> list[Event]:
        if state.status not in LIVE:
            return []
        return routing.decide(self._plans(state.digest), state, now, values)

    def decided(self, state: Execution, now: float, values: Values) -> tuple[list[Event], Execution]:
        if state.status not in LIVE:
            return [], state
        return routing.decided(self._plans(state.digest), state, now, values)

    def accepted(self, after: Execution, record: Record, seq: int) -> Execution:
        return execution.accepted(after, record, seq)

    def due(self, state: Execution) -> float | None:
        return None if state.status == "running" else cancel_and_pause.due(state)

    def outgoing(self, state: Execution, records: Sequence[Entry], values: Values, horizon: int) -> list[Note]:
        for _, record in records:
            if record.writer == self.writer:
                return parent_notes(state)
        return []

    def recover(self, state: Execution, values: Values) -> list[Note]:
        return parent_notes(state)

    def over(self, state: Execution) -> bool:
        return is_over(state)

    def keep(self, state: Execution) -> bool:
        """Its next decision may follow from time alone."""
        return cancel_and_pause.due(state) is not None


def _runs(record: Record) -> Iterable[str]:
    return [run_id for event in record.events if (run_id := getattr(event, "run_id", ""))]
