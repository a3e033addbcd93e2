"""Few executions are loaded at the same time, fewer when the broker does not answer, those with news first."""

import asyncio
from contextlib import suppress

import pytest

from shared.errors import Corrupt, Unavailable
from shared.runtime.control.load_pacing import BACKOFF_S, FEWEST, MOST, OLD_EVERY, Loads, pause_s
from shared.runtime.stores.results import ValueMissing


class Work:
    """Loads that end when they are told to, in the order in which they got a place."""

    def __init__(self, loads: Loads) -> None:
        self.loads, self.begun = loads, list[str]()
        self.ends: dict[str, asyncio.Future[None]] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def add(self, name: str, *, news: bool = False) -> None:
        self.tasks[name] = asyncio.create_task(self._load(name, news))

    async def _load(self, name: str, news: bool) -> None:
        async with self.loads.place(name, news=news):
            self.begun.append(name)
            self.ends[name] = asyncio.get_running_loop().create_future()
            await self.ends[name]

    async def end(self, name: str, error: Exception | None = None) -> None:
        if error is not None:
            self.ends[name].set_exception(error)
        else:
            self.ends[name].set_result(None)
        with suppress(Exception):
            await self.tasks[name]
        await settle()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def full(most: int, **waiting: bool) -> Work:
    """All places are taken, and some wait: name → has news."""
    work = Work(Loads(most))
    for n in range(most):
        work.add(f"first-{n}")
    await settle()
    for name, news in waiting.items():
        work.add(name, news=news)
    await settle()
    assert len(work.begun) == most
    return work


async def test_no_more_are_loaded_at_once_than_there_are_places() -> None:
    work = Work(Loads())
    for n in range(MOST * 3):
        work.add(str(n))
    await settle()
    assert len(work.begun) == MOST
    assert work.loads.waiting == MOST * 2
    for n in range(MOST * 3):
        await work.end(str(n))
    assert work.begun == [str(n) for n in range(MOST * 3)]
    assert (work.loads.taken, work.loads.waiting) == (0, 0)


async def test_who_has_news_goes_first_and_the_others_get_every_fourth_place() -> None:
    names = {**{f"old{n}": False for n in range(3)}, **{f"news{n}": True for n in range(2 * OLD_EVERY)}}
    work = await full(1, **names)
    while len(work.begun) < 1 + len(names):
        await work.end(work.begun[-1])
    order = ["news" if name.startswith("news") else "old" for name in work.begun[1:]]
    assert order[: 2 * OLD_EVERY] == [*["news"] * (OLD_EVERY - 1), "old"] * 2


async def test_news_of_one_that_waits_bring_it_forward() -> None:
    work = await full(1, a=False, b=False, c=False)
    work.loads.hurry("c")
    work.loads.hurry("nobody")
    await work.end("first-0")
    assert work.begun[-1] == "c"


async def test_a_broker_that_does_not_answer_gets_fewer_questions_and_more_when_it_does() -> None:
    work = await full(16)
    for n in range(10):
        await work.end(f"first-{n}", Unavailable("no answer"))
    assert work.loads.places == FEWEST
    for n in range(10, 16):
        await work.end(f"first-{n}")
    assert work.loads.places == FEWEST + 6
    for n in range(30):
        work.add(f"more-{n}")
        await settle()
        await work.end(f"more-{n}")
    assert work.loads.places == 16


@pytest.mark.parametrize("error", [Corrupt("bytes"), ValueMissing("purged")])
async def test_what_is_wrong_with_one_execution_says_nothing_about_the_broker(error: Exception) -> None:
    work = await full(8)
    await work.end("first-0", error)
    assert (work.loads.places, work.loads.taken) == (8, 7)


async def test_one_that_is_cancelled_leaves_its_place_to_the_next() -> None:
    work = await full(1, a=True, b=False)
    work.tasks["a"].cancel()
    await settle()
    await work.end("first-0")
    assert work.begun[-1] == "b"
    work.add("c")
    await settle()
    work.tasks["b"].cancel()
    await settle()
    assert work.begun[-1] == "c"


async def test_cancelled_at_the_moment_it_is_given_a_place_it_hands_it_on() -> None:
    work = await full(1, a=False, b=False)
    work.ends["first-0"].set_result(None)
    await asyncio.sleep(0)  # the place is given to `a`, which has not run yet
    work.tasks["a"].cancel()
    await settle()
    assert work.begun[-1] == "b"


def test_pauses_grow_and_differ_between_executions_but_not_between_runs() -> None:
    for tries in range(1, 20):
        step = BACKOFF_S[min(tries, len(BACKOFF_S)) - 1]
        pauses = [pause_s(f"execution-{n}", tries) for n in range(200)]
        assert all(step / 2 <= pause <= step for pause in pauses)
        assert len(set(pauses)) > 190
    assert pause_s("x", 3) == pause_s("x", 3) != pause_s("x", 4)
