"""Replicas in memory: the messages are there once; `MemoryBroker.lag` says how much of them an answer shows."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from shared.bus.memory.broker import MemoryBroker
from shared.bus.ports import Message
from shared.bus.replicas import Ends

T = TypeVar("T")


class Client(Protocol):
    broker: MemoryBroker

    async def call(self, operation: str, subject: str, apply: Callable[[], T]) -> T: ...

    def reached(self, stream: str) -> int: ...


class MemoryCopies:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def of_leader(self, stream: str, subject: str) -> Message | None:
        return await self._client.call("read", stream, lambda: self._last(stream, subject))

    async def tail(self, stream: str, subject: str, after: int) -> list[Message]:
        return await self._client.call("read", stream, lambda: self._shown(stream, (subject,), after))

    async def ends(self, stream: str, filters: Sequence[str]) -> Ends | None:
        return await self._client.call("read", stream, lambda: self._ends(stream, filters))

    def _last(self, stream: str, subject: str) -> Message | None:
        found = self._client.broker.stream(stream).read((subject,), 0)
        return found[-1] if found else None

    def _shown(self, stream: str, filters: Sequence[str], after: int) -> list[Message]:
        reached = self._client.reached(stream)
        return [m for m in self._client.broker.stream(stream).read(filters, after) if m.seq <= reached]

    def _ends(self, stream: str, filters: Sequence[str]) -> Ends | None:
        reached = self._client.reached(stream)
        found = {f: self._client.broker.stream(stream).read((f,), 0) for f in filters}
        lasts = {f: max([m.seq for m in messages if m.seq <= reached], default=0) for f, messages in found.items()}
        return (lasts, reached) if any(lasts.values()) else None
