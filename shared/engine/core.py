"""What a decider is to whoever drives it: a fold, a decision, and the messages that follow from the log.

The router (`routing/core.py`) and the scheduler (`scheduling/core.py`) are two such cores. The services drive them over
a broker (`shared/runtime/control/shell.py`, which tells how), a rehearsal without one
(`shared/answers/rehearsal/deciders.py`). A core holds nothing of an execution: all it knows comes in as a state.
"""

from collections.abc import Collection, Sequence
from typing import Protocol, TypeVar

from shared.engine.scheduling.messages import Message
from shared.engine.values.stored_values import Values
from shared.events.model import Event
from shared.events.note import Note
from shared.events.readers import Decider
from shared.events.record import Entry, Record, Writer

Outgoing = Message | Note


class Folded(Protocol):
    """Every state knows its own last event and sequence, and the last input it has folded."""

    n: int
    seq: int
    as_of: int


S = TypeVar("S", bound=Folded)


class Core(Protocol[S]):
    """`decide`, `outgoing` and `recover` may raise Missing, and what whoever gives the plans raises for one that is not
    in memory: bring the value or the plan, and ask again."""

    @property
    def writer(self) -> Decider: ...

    @property
    def listens(self) -> tuple[Writer, ...]:
        """Whose records are its inputs."""

    @property
    def kind(self) -> type[S]: ...

    def empty(self, execution_id: str) -> S: ...

    def first(self, record: Record) -> bool:
        """Nothing of the execution that matters here can be older than this record."""

    def fold(self, state: S, records: Sequence[Entry], fitting: set[int] | None = None) -> S:
        """The state after more records. Sequences of leases' records that are found to fit are added to `fitting`."""

    def stale(self, state: S, records: Sequence[Entry]) -> bool:
        """An input speaks of something the state should know and does not: load it again."""

    def unfit(self, state: S, entry: Entry, fitting: Collection[int] = ()) -> str:
        """Why a record of a lease counts for nothing here, because it does not fit; empty: it does. `fitting`: those of
        which the fold has found that they do."""

    def decide(self, state: S, now: float, values: Values) -> list[Event]: ...

    def due(self, state: S) -> float | None:
        """When something follows from the state by time alone."""

    def outgoing(self, state: S, records: Sequence[Entry], values: Values, horizon: int) -> Sequence[Outgoing]:
        """The messages that follow from these records (inputs or own). Nobody can have held a run
        scheduled after the horizon before."""

    def recover(self, state: S, values: Values) -> Sequence[Outgoing]:
        """The messages that must exist now, whoever published them before."""

    def over(self, state: S) -> bool: ...

    def keep(self, state: S) -> bool:
        """The state must stay in memory while the execution lives."""


class Drafting(Protocol[S]):
    """What a core can do besides whose decision arrives at the state that the log will have. Nothing else holds that
    draft, so it may become the state itself; whatever has happened to the record in between, folding is right."""

    def decided(self, state: S, now: float, values: Values) -> tuple[list[Event], S]:
        """`decide`, and the draft."""

    def accepted(self, after: S, record: Record, seq: int) -> S:
        """`fold` of the record of just this decision, from the draft."""
