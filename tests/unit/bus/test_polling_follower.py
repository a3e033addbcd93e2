"""A follower that reads: a page that does not come loses nothing, and a replica may be behind, but not for ever."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from shared.bus.direct_reader import BATCH
from shared.bus.polling_follower import MAX_HELD, LaggingFollower
from shared.bus.ports import Message
from shared.bus.pull import BEHIND_TRIES, Backoff
from shared.errors import Corrupt, Unavailable

SUBJECT = "noetl.events.0.x.router"


class Copies:
    """A stream of so many messages; `broken` are the requests that get no answer, `shown` is how far the replicas are
    that are asked for its end."""

    def __init__(self, count: int, broken: tuple[int, ...] = (), shown: tuple[int, ...] = ()) -> None:
        self.messages = [Message(SUBJECT, b"", seq) for seq in range(1, count + 1)]
        self._broken, self._shown, self.asked = broken, list(shown), 0

    async def last(self, stream: str, subject: str) -> Message | None:
        shown = self._shown.pop(0) if self._shown else len(self.messages)
        return self.messages[shown - 1] if shown else None

    async def page(self, stream: str, subject: str, after: int, limit: int) -> tuple[list[Message], int]:
        self.asked += 1
        if self.asked in self._broken:
            raise Unavailable("the connection broke")
        found = self.messages[after : after + min(limit, BATCH)]
        return found, len(self.messages) - after - len(found)


def follower(copies: Copies, after: int = 0, *, clustered: bool = False) -> LaggingFollower:
    connection = SimpleNamespace(is_clustered=clustered)
    return LaggingFollower(cast(Any, connection), cast(Any, copies), "S", ["noetl.events.0.>"], after)


async def taken(following: LaggingFollower, count: int) -> list[int]:
    found: list[int] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            batch = [message.seq for message in await following.batch()]
            assert len(batch) <= MAX_HELD
            found += batch
    return found


@pytest.mark.parametrize("broken", [(), (1,), (2,), (2, 4), (1, 2, 3)])
async def test_a_page_that_does_not_come_loses_nothing(broken: tuple[int, ...]) -> None:
    assert await taken(follower(Copies(3000, broken)), 3000) == list(range(1, 3001))


async def test_a_replica_that_is_behind_is_waited_for() -> None:
    assert await taken(follower(Copies(9, shown=(3, 0, 4)), 5, clustered=True), 4) == [6, 7, 8, 9]


async def test_a_stream_that_ends_before_the_cursor_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="holds up to 3, 5 was read already"):
        await taken(follower(Copies(3), 5), 1)


async def test_on_a_cluster_it_is_corrupt_when_every_answer_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    copies = Copies(3, shown=(3,) * (BEHIND_TRIES + 1))
    following = follower(copies, 5, clustered=True)
    monkeypatch.setattr(Backoff, "pause", lambda *_: asyncio.sleep(0))
    with pytest.raises(Corrupt):
        await taken(following, 1)
