"""Work that nobody waits for: it is kept, it can be bounded, and it ends with its service."""

import asyncio

from shared.runtime.service.background import Tasks


async def test_there_is_room_again_when_work_has_ended() -> None:
    tasks, gate = Tasks(), asyncio.Event()

    async def work() -> None:
        await gate.wait()

    tasks.start(work())
    waiting = asyncio.ensure_future(tasks.room(1))
    await asyncio.sleep(0)
    assert not waiting.done()
    gate.set()
    async with asyncio.timeout(30):
        await waiting


async def test_stopping_waits_until_cancelled_work_has_tidied_up() -> None:
    tasks, ended = Tasks(), []

    async def work(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(number)

    for number in range(3):
        tasks.start(work(number))
    await asyncio.sleep(0)
    await tasks.stop()
    assert sorted(ended) == [0, 1, 2]
    await tasks.room(1)  # none is left
