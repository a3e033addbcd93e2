"""The waits of tests: what they give, and what they say when it does not come."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from tests.support.waiting import until, wait_until


def answers(*values: object) -> Callable[[], object]:
    """One after the other, the last for ever."""
    left: Iterator[object] = iter(values)

    def look() -> object:
        value = next(left, values[-1])
        if isinstance(value, Exception):
            raise value
        return value

    return look


async def test_until_gives_what_was_found_also_by_a_coroutine() -> None:
    async def look() -> int:
        await asyncio.sleep(0)
        return 7

    assert await until(look, "a number") == 7
    assert await until(answers([], [1], [1, 2]), "two", so=lambda found: found == [1, 2], every_s=0.0) == [1, 2]


async def test_until_says_what_was_wanted_and_what_was_there() -> None:
    with pytest.raises(AssertionError, match=r"not within 0\.02 s: three of them; there was \[1, 2\]"):
        await until(lambda: [1, 2], "three of them", 0.02, so=lambda found: len(found) > 2, every_s=0.0)
    with pytest.raises(AssertionError, match="an answer; there was the last words"):
        await until(lambda: False, "an answer", 0.02, instead=lambda: "the last words")


async def test_until_ends_a_look_that_hangs() -> None:
    with pytest.raises(AssertionError, match=r"not within 0\.02 s: an answer; there was 'nothing yet'"):
        await until(lambda: asyncio.sleep(60), "an answer", 0.02)


async def test_until_goes_on_despite_the_errors_it_was_told_and_no_others() -> None:
    assert await until(answers(OSError("away"), 1), "it is back", despite=(OSError,), every_s=0.0) == 1
    with pytest.raises(AssertionError, match="there was OSError"):
        await until(answers(OSError("away")), "it is back", 0.02, despite=(OSError,))
    for error in (ValueError("ours"), TimeoutError("its own")):
        with pytest.raises(type(error), match=str(error)):
            await until(answers(error), "it is back")


def test_a_thread_waits_in_the_same_way() -> None:
    assert wait_until(answers(OSError("away"), 0, 3), "a number", despite=(OSError,), every_s=0.0) == 3
    with pytest.raises(AssertionError, match=r"not within 0\.02 s: a number; there was 0"):
        wait_until(lambda: 0, "a number", 0.02, every_s=0.0)
