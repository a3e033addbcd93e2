"""Followers of a stream: both kinds of them, and what they give."""

import asyncio

import pytest

from shared.bus.ports import Follower

WITHIN_S = 15.0


@pytest.fixture(params=[False, True], ids=["eager", "lazy"])
def lazy(request: pytest.FixtureRequest) -> bool:
    """Both ways of following keep the same promises."""
    return bool(request.param)


async def take(follower: Follower, count: int, within_s: float = WITHIN_S) -> list[int]:
    """The sequences of the next `count` messages."""
    found: list[int] = []
    async with asyncio.timeout(within_s):
        while len(found) < count:
            found += [message.seq for message in await follower.batch()]
    return found
