"""DBOS: a library, so the program that starts workflows is the one that runs them; PostgreSQL holds them."""

import asyncio
import os
from typing import Any

import uvloop
from dbos import DBOS, DBOSConfig, SetWorkflowID
from harness import Pages, count, drive

pages = Pages()


@DBOS.step()
async def step(n: int) -> int:
    count()
    return n


@DBOS.step()
async def fetch(url: str, page: int) -> dict[str, Any]:
    return await pages.fetch(url, page)


@DBOS.step()
async def store(run: str, page: int, items: list[Any]) -> int:
    return await pages.store(run, page, items)


@DBOS.workflow()
async def chain(steps: int) -> int:
    done = 0
    for n in range(steps):
        done += await step(n)
    return done


@DBOS.workflow()
async def loop(items: int) -> int:
    return sum(await asyncio.gather(*[step(n) for n in range(items)]))


@DBOS.workflow()
async def read(job: dict[str, Any]) -> int:
    page, more = 0, True
    while more:
        page += 1
        found = await fetch(job["url"], page)
        await store(job["run"], page, found["items"])
        more = found["more"]
    return page


WORKFLOWS = {"chain": chain, "loop": loop, "read": read}


async def execute(name: str, shape: str, argument: Any) -> Any:
    with SetWorkflowID(name):
        return await WORKFLOWS[shape](argument)


async def main() -> None:
    threads = int(os.environ["DBOS_THREADS"])
    config: DBOSConfig = {
        "name": "peer",
        "system_database_url": os.environ["DBOS_URL"],
        "executor_id": os.environ["DBOS_EXECUTOR"],
        "application_version": "1",
        "sys_db_pool_size": int(os.environ["DBOS_CONNECTIONS"]),
        "max_executor_threads": threads,
        "log_level": "ERROR",
        "enable_otlp": False,
    }
    DBOS(config=config)
    DBOS.launch()
    await drive(execute)
    DBOS.destroy()


uvloop.run(main())
