"""How much the machine had to carry in a storm: without that, what was late means nothing."""

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

from tests.chaos.storm.system import System

EVERY_S = 5.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Load:
    def __init__(self, system: System) -> None:
        self._system = system
        self._averages: list[float] = []
        self._memory: dict[str, int] = {}
        self._late_s = 0.0
        self._disk = 0

    async def run(self) -> None:
        while True:
            asked = time.monotonic()
            await asyncio.sleep(EVERY_S)
            self._late_s = max(self._late_s, time.monotonic() - asked - EVERY_S)
            self._averages.append(os.getloadavg()[0])
            for process in self._system.processes.values():
                self._memory[process.name] = max(self._memory.get(process.name, 0), _resident(process.pid))
            self._disk = max(self._disk, await asyncio.to_thread(_size, self._system.folder))

    def rows(self, took_s: float, executions: int, held_back_s: float) -> Iterator[tuple[str, object]]:
        averages = self._averages or [0.0]
        yield "seconds in all", round(took_s, 1)
        yield "executions a second", round(executions / took_s, 2)
        yield "seconds in which nothing was started: too many live", round(held_back_s, 1)
        mean = sum(averages) / len(averages)
        yield "load average, mean and highest", f"{mean:.1f}, {max(averages):.1f} ({os.cpu_count()} cores)"
        yield "the harness's own timers late by at most", f"{self._late_s:.2f} s"
        yield "largest process", max(((size // 2**20, name) for name, size in self._memory.items()), default=None)
        yield "disk, MB", self._disk // 2**20


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _size(folder: Path) -> int:
    total = 0
    for root, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.stat(os.path.join(root, name)).st_blocks * 512
            except OSError:
                continue
    return total
