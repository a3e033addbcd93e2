"""Checksums of a file piece by piece, so that damage is told by its place and not only by its file."""

import hashlib
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

PIECE_BYTES = 4 * 1_048_576  # a manifest of 4 MiB names 240 GiB of them


class Pieces:
    """Of what goes by, in chunks of any size."""

    def __init__(self) -> None:
        self._sums: list[str] = []
        self._digest, self._room = hashlib.sha256(), PIECE_BYTES

    def add(self, data: bytes) -> None:
        while data:
            now, data = data[: self._room], data[self._room :]
            self._digest.update(now)
            self._room -= len(now)
            if not self._room:
                self._end()

    def sums(self) -> tuple[str, ...]:
        """Nothing is added after this."""
        if self._room < PIECE_BYTES:
            self._end()
        return tuple(self._sums)

    def _end(self) -> None:
        self._sums.append(self._digest.hexdigest())
        self._digest, self._room = hashlib.sha256(), PIECE_BYTES


def where(path: Path, written: Sequence[str]) -> str:
    """The first piece of a damaged file that is not what was written, in words; empty when no piece says so."""
    found = Pieces()
    with path.open("rb") as file:
        while data := file.read(PIECE_BYTES):
            found.add(data)
    there = found.sums()
    for number, (now, wanted) in enumerate(zip_longest(there, written)):
        if now == wanted:
            continue
        at = f"from byte {number * PIECE_BYTES}"
        if now is None:
            return f"{at} everything is missing"
        if wanted is None:
            return f"{at} there is more than was written"
        if now in written[number + 1 :]:
            return f"{at} {(written.index(now, number) - number) * PIECE_BYTES} bytes are missing"
        return f"{at} to {min((number + 1) * PIECE_BYTES, path.stat().st_size)} it is not what was written"
    return ""
