"""Prefect: flows run where they are called, and report every run of a task to the server."""

import asyncio
import os
from typing import Any

import uvloop
from harness import Pages, count, drive
from prefect import flow, task

pages = Pages()


@task
async def step(n: int) -> int:
    count()
    return n


@task
async def fetch(url: str, page: int) -> dict[str, Any]:
    return await pages.fetch(url, page)


@task
async def store(run: str, page: int, items: list[Any]) -> int:
    return await pages.store(run, page, items)


@flow
async def chain(steps: int) -> int:
    done = 0
    for n in range(steps):
        done += await step(n)
    return done


@flow
async def loop(items: int) -> int:
    return sum(await asyncio.gather(*[step(n) for n in range(items)]))


@flow
async def read(job: dict[str, Any]) -> int:
    page, more = 0, True
    while more:
        page += 1
        found = await fetch(job["url"], page)
        await store(job["run"], page, found["items"])
        more = found["more"]
    return page


FLOWS = {"chain": chain, "loop": loop, "read": read}
at_once = asyncio.Semaphore(int(os.environ["PREFECT_AT_ONCE"]))


async def execute(_: str, shape: str, argument: Any) -> Any:
    async with at_once:
        return await FLOWS[shape](argument)


uvloop.run(drive(execute))
