"""What the programs of all peers share; it runs in a peer's virtualenv, with the standard library alone.

A step of a peer adds one to a counter of its process: a file of eight bytes in the folder `PEER_COUNTS`, mapped into
memory, which costs less than a microsecond and is read by the bench. A driver reads jobs from its input, runs their
executions and says how long each took and what came out.
"""

import asyncio
import json
import mmap
import os
import struct
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

_mapped: dict[int, mmap.mmap] = {}


def count() -> None:
    """One more step was carried out here. A forked process has a file of its own."""
    here = _mapped.get(os.getpid())
    if here is None:
        file = Path(os.environ["PEER_COUNTS"]) / str(os.getpid())
        file.write_bytes(bytes(8))
        with file.open("r+b") as opened:
            here = _mapped[os.getpid()] = mmap.mmap(opened.fileno(), 8)
    struct.pack_into("<q", here, 0, struct.unpack_from("<q", here)[0] + 1)


class Pages:
    """The outside world of W5: an HTTP API and a table. Opened once by each process."""

    def __init__(self) -> None:
        self._session: Any = None
        self._pool: Any = None

    async def fetch(self, url: str, page: int) -> dict[str, Any]:
        import aiohttp

        count()
        if self._session is None:
            self._session = aiohttp.ClientSession()
        async with self._session.get(url, params={"page": page}) as response:
            found: dict[str, Any] = await response.json()
        return found

    async def store(self, run: str, page: int, items: list[Any]) -> int:
        import asyncpg

        count()
        if self._pool is None:
            self._pool = await asyncpg.create_pool(os.environ["PEER_DSN"], min_size=1, max_size=4)
        await self._pool.execute(
            "INSERT INTO bench_pages (run, page, items) VALUES ($1, $2, $3)", run, page, json.dumps(items)
        )
        return page


Execute = Callable[[str, str, Any], Awaitable[Any]]


async def drive(execute: Execute) -> None:
    """Jobs until the input ends. `execute` starts an execution by its id, shape and argument and waits for its
    result. A result that is wrong ends the driver: no figure without the work."""
    print(json.dumps({"ready": True}), flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(await _run(execute, json.loads(line))), flush=True)


async def _run(execute: Execute, job: dict[str, Any]) -> dict[str, Any]:
    each: list[float] = []

    async def one(name: str) -> None:
        began = time.perf_counter()
        found = await execute(name, job["shape"], job["argument"])
        each.append(time.perf_counter() - began)
        if found != job["result"]:
            sys.exit(f"{name} has the result {found!r}, should be {job['result']!r}")

    names = [f"{job['id']}-{n}" for n in range(job["executions"])]
    if job["one_by_one"]:
        for name in names:
            await one(name)
    else:
        await asyncio.gather(*map(one, names))
    return {"each_s": each}
