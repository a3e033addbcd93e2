"""Reads on a cluster that are whole and not old, although each direct get is answered by whichever replica is nearest.

A replica's answer is a prefix of the log as that replica has it: it may end early, and has no holes. Two answers may
come from different replicas, and do not belong together. Folding a log with a hole would give a wrong state that no
conflict ever shows, so a read that cannot be made whole fails (`Unavailable`) and never returns less.

1. *One filter* is whole when it reaches what the stream's leader says is its last message.
2. *Several filters* are not read side by side and merged: one replica may be ahead of another, and the merge would have
   a hole. Instead, one request to one replica says at once how far that replica is and where each filter ends there.
   That answer counts when the replica is at least as far as the leader's last message of the execution. Each filter is
   then read up to the end that was said, and nothing beyond that position is returned.
3. A replica that is behind is asked again after a short pause; another may answer. One page may come from one replica
   and the next from another, since each continues where the last one ended.
4. A message that ages or is replaced meanwhile moves the end back, so the leader is asked again too: else the read
   would wait for a message that no longer exists.
5. A leader that was replaced and does not know it yet makes a read old, never one with holes. Being old is safe: a
   decision made from it is refused by its expected sequence, and a worker checks that it sees its own claim.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from shared.bus.ports import Message
from shared.errors import Unavailable

PAUSES_S = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)  # a replica is usually some milliseconds behind
Ends = tuple[dict[str, int], int]  # the last sequence of each filter, and of the stream


class Copies(Protocol):
    """What a cluster can be asked. Each call of `tail` and `ends` is answered by one replica, any of them."""

    async def of_leader(self, stream: str, subject: str) -> Message | None:
        """The leader's last message of a subject or of a wildcard."""

    async def tail(self, stream: str, subject: str, after: int) -> list[Message]:
        """All messages after `after`; each page may come from another replica."""

    async def ends(self, stream: str, filters: Sequence[str]) -> Ends | None:
        """All of one moment. None: the replica has no message of these filters, and does not say how far it is."""


class ReplicaReader:
    def __init__(self, copies: Copies) -> None:
        self._copies = copies

    async def read(self, stream: str, filters: Sequence[str], after: int) -> list[Message]:
        if len(filters) == 1:
            return await self._up_to(stream, filters[0], after, await self._end(stream, filters[0]))
        ends, position = await self._ends(stream, filters, after)
        lists = await asyncio.gather(*(self._up_to(stream, f, after, end) for f, end in ends.items()))
        found = {m.seq: m for messages in lists for m in messages if m.seq <= position}
        return [found[seq] for seq in sorted(found)]

    async def last(self, stream: str, subject: str) -> Message | None:
        return await self._copies.of_leader(stream, subject)

    async def _end(self, stream: str, subject: str) -> int:
        found = await self._copies.of_leader(stream, subject)
        return 0 if found is None else found.seq

    async def _up_to(self, stream: str, subject: str, after: int, end: int) -> list[Message]:
        found: list[Message] = []
        for pause in (0.0, *PAUSES_S):
            if pause:
                await asyncio.sleep(pause)
                end = min(end, await self._end(stream, subject))
            reached = found[-1].seq if found else after
            if reached >= end:
                return found
            found += await self._copies.tail(stream, subject, reached)
            if found and found[-1].seq >= end:
                return found
        raise Unavailable(f"the replicas of {stream} do not show {subject} up to {end} yet")

    async def _ends(self, stream: str, filters: Sequence[str], after: int) -> Ends:
        """Where each filter ends that has messages after `after`, and the position up to which that holds."""
        newest, ends = await asyncio.gather(self._end(stream, cover(filters)), self._copies.ends(stream, filters))
        for pause in PAUSES_S:
            if newest <= after:
                return {}, after
            if ends is not None and ends[1] >= newest:
                return {f: end for f, end in ends[0].items() if end > after}, ends[1]
            if ends is None and not await self._goes_on(stream, filters, after):
                return {}, after
            await asyncio.sleep(pause)
            ends = await self._copies.ends(stream, filters)
        raise Unavailable(f"the replicas of {stream} are not as far as {newest} yet")

    async def _goes_on(self, stream: str, filters: Sequence[str], after: int) -> bool:
        return any(end > after for end in await asyncio.gather(*(self._end(stream, f) for f in filters)))


def cover(filters: Sequence[str]) -> str:
    """A pattern that matches what any of the filters matches: of one execution, all of it."""
    common: list[str] = []
    for tokens in zip(*(f.split(".")[:-1] for f in filters), strict=False):
        if len(set(tokens)) > 1 or tokens[0] == ">":
            break
        common.append(tokens[0])
    return ".".join([*common, ">"])
