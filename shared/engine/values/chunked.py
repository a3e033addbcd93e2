"""What a loop's iterations left, by index, in chunks: a state of 100,000 results must not be copied whole for every
few reports. A draft copies the list of chunks, a write the one chunk it touches; so a state that was handed out
never changes."""

from collections.abc import Iterator
from typing import Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")
CHUNK = 256


class Chunked(Struct, Generic[T]):
    chunks: dict[int, dict[int, T]] = {}
    size: int = 0

    def copy(self) -> "Chunked[T]":
        return Chunked(dict(self.chunks), self.size)

    def put(self, index: int, value: T) -> None:
        """Once per index, on a draft."""
        self.chunks[index // CHUNK] = {**self.chunks.get(index // CHUNK, {}), index: value}
        self.size += 1

    def get(self, index: int) -> T | None:
        return self.chunks.get(index // CHUNK, {}).get(index)

    def items(self) -> Iterator[tuple[int, T]]:
        """In index order."""
        for chunk in sorted(self.chunks):
            yield from sorted(self.chunks[chunk].items())
