"""What the shells of one service have in common."""

from collections.abc import Callable, Sequence
from typing import Generic

from msgspec import Struct, field

from shared.bus.ports import Bus, Clock, Message
from shared.engine.core import Core, Drafting, Outgoing, S
from shared.events.record import Record
from shared.runtime.control.counts import Counts
from shared.runtime.control.letter_quota import Quota
from shared.runtime.control.load_pacing import Loads
from shared.runtime.stores.plans import Plans

Send = Callable[[Sequence[Outgoing], Callable[[], None]], None]
Witness = Callable[[int, int, int, Sequence[tuple[Message, Record]]], None]


class Surroundings(Struct, Generic[S], frozen=True, kw_only=True):
    """`send(messages, then)` calls `then` when the broker has all. `witness(partition, after, seen, records)` is told
    what a shell has read, as it reads it: all that can be read of the log after one sequence, up to another."""

    bus: Bus
    clock: Clock
    partitions: int
    core: Core[S]
    drafting: Drafting[S] | None = None
    plans: Plans
    send: Send
    loads: Loads
    quota: Quota
    witness: Witness | None = None
    counts: Counts = field(default_factory=Counts)
