"""Where a peer is installed and runs, and what is asked of one."""

import os
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from benchmarks.peers.children import PROGRAMS, Child, Driver

QUIET = {"DO_NOT_TRACK": "1", "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(PROGRAMS)}


class Place(Struct, frozen=True):
    """`home` holds virtualenvs and is kept; `folder` is of this sitting. With `durable`, an answer means that what it
    is about survives a power cut; otherwise it survives the death of any process."""

    home: Path
    folder: Path
    durable: bool
    dsn: str
    settings: Mapping[str, str]

    def program(self, name: str) -> Path:
        """An executable of the peer's virtualenv."""
        return self.home / "env" / "bin" / name

    @property
    def counts(self) -> Path:
        return self.folder / "counts"

    @property
    def environ(self) -> dict[str, str]:
        return {**QUIET, "PEER_COUNTS": str(self.counts), "PEER_DSN": self.dsn}

    def counted(self) -> int:
        """Steps that all processes carried out so far."""
        files = [file.read_bytes() for file in self.counts.iterdir()]
        return sum(struct.unpack("<q", data)[0] for data in files if len(data) == 8)


class Process(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def pid(self) -> int: ...
    def check(self) -> None: ...


class Running(Struct):
    """All processes, and those of them that take jobs: each a share of the executions."""

    processes: list[Process]
    drivers: list[Driver]

    def pids(self) -> dict[str, int]:
        return {process.name: process.pid for process in self.processes}

    def check(self) -> None:
        for process in self.processes:
            process.check()


SHAPES = {"W1": "chain", "W2": "chain", "W2p": "chain", "W3": "loop", "W4": "chain", "W5": "read"}


class Peer(Struct, frozen=True):
    """`shapes` is what its program calls the work of each workload; a setting `W3=…` takes another one. `settings` have
    the values that were best here. `scale` divides the executions of a peer that takes its time."""

    name: str
    packages: tuple[str, ...]  # of PyPI
    running: Callable[[Place], AbstractAsyncContextManager[Running]]
    node: tuple[str, ...] = ()  # of npm
    shapes: Mapping[str, str] = field(default_factory=lambda: SHAPES)
    settings: Mapping[str, str] = field(default_factory=dict)
    scale: int = 1


@asynccontextmanager
async def group() -> AsyncIterator["Group"]:
    found = Group()
    try:
        yield found
    finally:
        await found.stop()


class Group:
    """Children that end together, the last one first."""

    def __init__(self) -> None:
        self._exit = AsyncExitStack()
        self.others: list[Process] = []
        self._children: list[Child] = []
        self._drivers: list[Driver] = []

    def running(self) -> Running:
        return Running([*self.others, *self._children, *self._drivers], self._drivers)

    async def add(self, child: Child) -> Child:
        self._exit.push_async_callback(child.stop)
        await child.start()
        self._children.append(child)
        return child

    async def drive(self, place: Place, script: str, environ: Mapping[str, str]) -> None:
        command = [place.program("python"), PROGRAMS / script]
        driver = Driver(f"driver-{len(self._drivers)}", command, {**place.environ, **environ}, place.folder)
        self._exit.push_async_callback(driver.stop)
        await driver.start(talks=True)
        stdout = driver.process.stdout
        assert stdout is not None, "it talks"
        if not await stdout.readline():  # its first line: it is ready
            await driver.process.wait()
            driver.check()
        self._drivers.append(driver)

    async def stop(self) -> None:
        await self._exit.aclose()


def install(peer: Peer, home: Path) -> None:
    """Into a virtualenv and a node folder of the peer's own, if it is not there as it is wanted."""
    done, wanted = home / "installed", "\n".join((*peer.packages, *peer.node))
    if done.exists() and done.read_text() == wanted:
        return
    if not (home / "env" / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", str(home / "env")], check=True)
    quiet = ["--quiet", "--disable-pip-version-check"]
    pip = [str(home / "env" / "bin" / "python"), "-m", "pip", "install", *quiet]
    subprocess.run([*pip, *peer.packages], check=True)
    if peer.node:
        options = ["--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(home / "node")]
        subprocess.run(["npm", "install", *options, *peer.node], check=True, env={**os.environ, **QUIET})
    done.write_text(wanted)
