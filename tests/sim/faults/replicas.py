"""The replicas of a simulated stream: each answer is one's, as far as it has come. What reads them is the real one."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from shared.bus.memory.bus import MemoryBus
from shared.bus.memory.stream import MemoryStream
from shared.bus.ports import Message
from shared.bus.replicas import Ends
from shared.bus.subject import matches

Lag = Callable[[], int]  # of the replica that answers, in messages
T = TypeVar("T")


class SimCopies:
    def __init__(self, bus: MemoryBus, lag: Lag) -> None:
        self._bus, self._lag = bus, lag

    async def of_leader(self, stream: str, subject: str) -> Message | None:
        found = await self._ask(stream, lambda held: held.read((subject,), 0))
        return found[-1] if found else None

    async def tail(self, stream: str, subject: str, after: int) -> list[Message]:
        return await self._ask(stream, lambda held: _up_to(held, (subject,), after, held.last - self._lag()))

    async def ends(self, stream: str, filters: Sequence[str]) -> Ends | None:
        return await self._ask(stream, lambda held: _ends(held, filters, held.last - self._lag()))

    async def separate(self, stream: str, filters: Sequence[str], after: int) -> list[Message]:
        """As one would read on a single server: the end of the stream first, then each filter."""
        newest = await self._ask(stream, lambda held: held.last - self._lag())
        found = {m.seq: m for f in filters for m in await self.tail(stream, f, after) if m.seq <= newest}
        return [found[seq] for seq in sorted(found)]

    async def _ask(self, stream: str, work: Callable[[MemoryStream], T]) -> T:
        return await self._bus.call("read", stream, lambda: work(self._bus.broker.stream(stream)))


def _up_to(stream: MemoryStream, filters: Sequence[str], after: int, end: int) -> list[Message]:
    return [message for message in stream.read(filters, after) if message.seq <= end]


def _ends(stream: MemoryStream, filters: Sequence[str], end: int) -> Ends | None:
    found = _up_to(stream, filters, 0, end)
    if not found:
        return None
    return {f: max([m.seq for m in found if matches(f, m.subject)], default=0) for f in filters}, end
