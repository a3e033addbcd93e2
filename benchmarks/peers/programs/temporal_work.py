"""Temporal: workflows of activities, as its worker and its driver know them."""

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow

with workflow.unsafe.imports_passed_through():
    from harness import Pages, count

    pages = Pages()

QUEUE = "peer"
WITHIN = timedelta(seconds=120)


@activity.defn
async def step(n: int) -> int:
    count()
    return n


@activity.defn
async def fetch(url: str, page: int) -> dict[str, Any]:
    return await pages.fetch(url, page)


@activity.defn
async def store(run: str, page: int, items: list[Any]) -> int:
    return await pages.store(run, page, items)


def _step(n: int) -> Any:
    return workflow.execute_activity(step, n, start_to_close_timeout=WITHIN)


@workflow.defn
class Chain:
    @workflow.run
    async def run(self, steps: int) -> int:
        done = 0
        for n in range(steps):
            done += await _step(n)
        return done


@workflow.defn
class LocalChain:
    """Cheaper: the history has them when the workflow task has ended, all at once."""

    @workflow.run
    async def run(self, steps: int) -> int:
        done = 0
        for n in range(steps):
            done += await workflow.execute_local_activity(step, n, start_to_close_timeout=WITHIN)
        return done


@workflow.defn
class Loop:
    @workflow.run
    async def run(self, items: int) -> int:
        return sum(await asyncio.gather(*[_step(n) for n in range(items)]))


@workflow.defn
class Read:
    @workflow.run
    async def run(self, job: dict[str, Any]) -> int:
        page, more = 0, True
        while more:
            page += 1
            found = await workflow.execute_activity(fetch, args=[job["url"], page], start_to_close_timeout=WITHIN)
            values = [job["run"], page, found["items"]]
            await workflow.execute_activity(store, args=values, start_to_close_timeout=WITHIN)
            more = found["more"]
        return page


WORKFLOWS = {"chain": Chain, "local": LocalChain, "loop": Loop, "read": Read}
ACTIVITIES = [step, fetch, store]
