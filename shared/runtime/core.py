"""What a control service brings to the shell, and the actor the shell keeps per execution."""

from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from shared.engine.limiting import Want
from shared.events.command import Command
from shared.events.model import Event
from shared.events.note import Note
from shared.events.record import Record, Writer
from shared.events.request import Control, Request
from shared.events.stop import Stop

Entry = tuple[int, Record]


class Free(Struct, frozen=True, gc=False):
    """No worker has the run, or the iteration, any more: it has ended or, `parked`, waits. Without an index: none
    of its iterations; without a run: nothing of the execution."""

    execution_id: str
    run_id: str = ""
    index: int | None = None
    parked: bool = False


Outgoing = Command | Request | Control | Note | Stop | Free | Want


class Folded(Protocol):
    """Every state knows its own last event and sequence, and the last input it has folded."""

    n: int
    seq: int
    as_of: int


S = TypeVar("S", bound=Folded)


class Core(Protocol[S]):
    """The decider of a service with its fold. `decide` and the command makers may raise Missing or
    PlanMissing: the shell brings the value or plan and asks again."""

    writer: Writer
    listens: tuple[Writer, ...]
    bucket: str  # where its snapshots are kept
    kind: type[S]

    def empty(self, execution_id: str) -> S: ...

    def first(self, record: Record) -> bool:
        """Nothing of the execution that matters here can be older than this record."""

    def fold(self, state: S, records: Sequence[Entry]) -> S: ...

    def stale(self, state: S, records: Sequence[Entry]) -> bool:
        """An input speaks of something the state should know and does not: load it again."""

    def decide(self, state: S, now: float, values: dict[str, Any]) -> list[Event]: ...

    def due(self, state: S) -> float | None:
        """When something follows from the state by time alone."""

    def outgoing(
        self, state: S, records: Sequence[Entry], values: dict[str, Any], horizon: int
    ) -> list[Outgoing]:
        """The messages that follow from these records (inputs or own). Nobody can have held a run
        scheduled after the horizon before."""

    def recover(self, state: S, values: dict[str, Any]) -> list[Outgoing]:
        """The messages that must exist now, whoever published them before."""

    def over(self, state: S) -> bool: ...

    def keep(self, state: S) -> bool:
        """The state must stay in memory while the execution lives."""


class Actor(Generic[S]):
    """One execution in one service. `carried` are messages whose decision did not get into the log
    yet, `due` messages of a recovery, `alarm` when it is looked at without news, `stored` large values already
    written, `folded` the records since the last snapshot, `saved` whether there is one."""

    __slots__ = (
        "alarm", "busy", "carried", "due", "execution_id", "folded", "inbox", "saved", "state", "stored", "values",
    )

    def __init__(self, execution_id: str, state: S | None = None) -> None:
        self.execution_id = execution_id
        self.state = state
        self.inbox: list[Entry] = []
        self.busy = False
        self.folded = 0
        self.saved = False
        self.carried: list[int] = []
        self.due: list[Outgoing] = []
        self.alarm = 0.0
        self.values: dict[str, Any] = {}
        self.stored: set[str] = set()

    def news(self) -> list[Entry]:
        """What the inbox adds to the state."""
        assert self.state is not None
        as_of = self.state.as_of
        return [entry for entry in self.inbox if entry[0] > as_of]
