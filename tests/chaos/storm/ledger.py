"""The ledger outside: an HTTP server that notes every call with its key, its time, and the worker that made it."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import web

UNKNOWN = "?"
MAX_DEPTH = 8  # of processes between a worker and the one that calls
LOOKS = 3  # the kernel's table of connections changes while it is read, and a look may miss one


class Called(NamedTuple):
    at: float
    key: str
    execution: str
    what: str
    worker: str
    status: int


class Ledger:
    """`workers` gives the pids of the workers as they are now. A call whose gate is shut is answered with 409, one that
    is to fail at first with 503: both are noted."""

    def __init__(self, workers: Callable[[], Mapping[int, str]]) -> None:
        self.url = ""
        self.calls: list[Called] = []
        self.open: set[str] = set()
        self._workers = workers
        self._known: dict[tuple[str, int], tuple[object, str]] = {}

    async def answer(self, request: web.Request) -> web.Response:
        asked = await request.json()
        key = request.headers.get("Idempotency-Key") or asked["key"]
        status = self._status(asked)
        worker = self._caller(request, asked)
        self.calls.append(Called(time.monotonic(), key, asked["execution"], asked["what"], worker, status))
        await asyncio.sleep(float(asked.get("delay", 0.0)))
        return web.json_response({"what": asked["what"]}, status=status)

    def _status(self, asked: Mapping[str, Any]) -> int:
        if asked.get("gate") and asked["gate"] not in self.open:
            return 409
        return 503 if int(asked.get("attempt", 1)) <= int(asked.get("fails", 0)) else 200

    def _caller(self, request: web.Request, asked: Mapping[str, Any]) -> str:
        """Of a python task the worker above it; of an HTTP call whoever holds the other end."""
        if "pid" in asked:
            return above(int(asked["pid"]), self._workers())
        transport = request.transport
        if transport is None:
            return UNKNOWN
        peer = transport.get_extra_info("peername")
        held, worker = self._known.get(peer, (None, UNKNOWN))
        if held is not transport or worker == UNKNOWN:
            found = (holder(peer[1], self._workers()) for _ in range(LOOKS))
            worker = next((each for each in found if each != UNKNOWN), UNKNOWN)
            self._known[peer] = transport, worker
        return worker

    def of(self, execution: str) -> list[Called]:
        return [call for call in self.calls if call.execution == execution]


def above(pid: int, workers: Mapping[int, str]) -> str:
    for _ in range(MAX_DEPTH):
        if pid in workers:
            return workers[pid]
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            break
    return UNKNOWN


def holder(port: int, workers: Mapping[int, str]) -> str:
    """Which worker has the connection from that port of this machine."""
    mine = f"0100007F:{port:04X}"
    for line in Path("/proc/net/tcp").read_text().splitlines():
        fields = line.split()
        if fields[1] == mine:
            wanted = f"socket:[{fields[9]}]"
            return next((name for pid, name in workers.items() if _has(pid, wanted)), UNKNOWN)
    return UNKNOWN


def _has(pid: int, wanted: str) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        return any(_link(f"{folder}/{name}") == wanted for name in os.listdir(folder))
    except OSError:
        return False


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


@asynccontextmanager
async def ledger(workers: Callable[[], Mapping[int, str]]) -> AsyncIterator[Ledger]:
    opened, app = Ledger(workers), web.Application()
    app.router.add_post("/call", opened.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        opened.url = f"http://{host}:{port}"
        yield opened
    finally:
        await runner.cleanup()
