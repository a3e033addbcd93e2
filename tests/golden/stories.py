"""A stack of the version that is recorded, and what happens on it: asked by its command, or as any NATS client asks."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from shared.bus.jetstream import JetStreamBus, connect
from shared.bus.kv import stream_of
from shared.bus.ports import Message
from shared.bus.topology import PLAYBOOKS, RESULTS, events_stream
from shared.events import subjects
from shared.events.request import Control, Request
from tests.golden.files import Head, Line
from tests.support.cli import environment
from tests.support.paths import ROOT
from tests.support.waiting import until

BOOKS = Path(__file__).parent / "books"
EDITIONS = ROOT / "tests" / "unit" / "answers" / "verify" / "recorded"
WITHIN_S = 120.0
END = b'"playbook.processed"'
# What is asked for at first, by the ids of the executions.
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "programs": ("golden/programs", {"who": "everyone"}),
    "fails": ("golden/programs", {"wrong": True}),
    "retries": ("golden/retries", {}),
    "loops": ("golden/loops", {"items": [1, 2, 3]}),
    "family": ("golden/family", {}),
    "granted": ("golden/asks", {}),
    "refused": ("golden/asks", {}),
    "late": ("golden/asks", {"within": 1}),
    "cancelled": ("golden/slow", {}),
    "goes-on": ("golden/slow", {"s": 2}),
    "places": ("golden/places", {}),
    "saga": ("golden/saga", {}),
    "formal": ("golden/formal", {}),
    "large": ("golden/large", {}),
    "first": ("first-edition", {}),
    "second": ("second-edition", {}),
    "third": ("third-edition", {}),
    "waits": ("golden/asks", {}),      # and is left waiting
    "paused": ("golden/slow", {"s": 2}),  # and is left so
}
LEFT = {"waits", "paused"}
AGAIN = {"fails": "", "programs": "last"}  # a rerun of what failed, and one from a step


class Version:
    """The code of a version, and a folder for a stack of it."""

    def __init__(self, code: Path, folder: Path) -> None:
        self.code, self.folder = code, folder

    def environ(self) -> dict[str, str]:
        return environment(PYTHONPATH=str(self.code))

    def ctl(self, *args: str) -> str:
        """What it prints."""
        command = [sys.executable, "-m", "services.cli", *args]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environ(), capture_output=True, text=True, timeout=WITHIN_S, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(args)}: {done.stdout}{done.stderr}")
        return done.stdout

    def up(self) -> "subprocess.Popen[bytes]":
        with (self.folder / "up.txt").open("wb") as out:
            command = [sys.executable, "-m", "services.cli", "up", "--folder", ".noetl", "--port", "0"]
            return subprocess.Popen(
                command, cwd=self.folder, env=self.environ(), stdout=out, stderr=out, start_new_session=True)

    @property
    def context(self) -> Path:
        return self.folder / ".noetl" / "context.json"


async def stack_log(version: Version) -> bytes:
    """The text of its log in the end."""
    process = version.up()
    try:
        await until(version.context.exists, "it is up", WITHIN_S, instead=(version.folder / "up.txt").read_text)
        context = json.loads(version.context.read_bytes())
        bus = await connect(context["nats_url"], user="admin", password=context["users"]["admin"])
        try:
            stack = Stack(bus, context["partitions"])
            for file in sorted([*BOOKS.glob("*.yaml"), *EDITIONS.glob("*-edition.yaml")]):
                await asyncio.to_thread(version.ctl, "register", str(file))
            await happen(stack, context["postgres_dsn"])
            await asyncio.to_thread(version.ctl, "verify", "--all")
            return await stack.log()
        finally:
            await bus.close()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(WITHIN_S)


class Stack:
    def __init__(self, bus: JetStreamBus, partitions: int) -> None:
        self.bus, self.partitions = bus, partitions

    async def start(self, execution_id: str, path: str, payload: dict[str, Any]) -> None:
        request = Request(path, payload=payload, execution_id=execution_id, by="golden")
        await self.bus.append(subjects.EXECUTE, msgspec.json.encode(request))

    async def want(self, subject: str, execution_id: str, **fields: Any) -> None:
        await self.bus.append(subject, msgspec.json.encode(Control(execution_id, by="golden", **fields)))

    async def says(self, execution_id: str, word: bytes) -> None:
        """Waits until the log says it of the execution."""
        what = f"{execution_id} says {word.decode()}"
        await until(lambda: self._has(execution_id, word), what, WITHIN_S, every_s=0.1)

    async def _has(self, execution_id: str, word: bytes) -> bool:
        return any(word in message.data for message in await self._read(execution_id))

    async def all_over(self) -> None:
        await until(self._unfinished, "all are over", WITHIN_S, so=lambda left: left <= LEFT, every_s=0.3)

    async def _unfinished(self) -> set[str]:
        begun, over = set(), set()
        for partition in range(self.partitions):
            for message in await self.bus.read(events_stream(partition), [f"{subjects.EVENTS}.{partition}.>"]):
                execution_id = subjects.parse_event(message.subject).execution_id
                begun.add(execution_id)
                if END in message.data:
                    over.add(execution_id)
        return begun - over

    async def _read(self, execution_id: str) -> Sequence[Message]:
        partition = subjects.partition_of(execution_id, self.partitions)
        return await self.bus.read(events_stream(partition), [subjects.events_of(partition, execution_id)])

    async def log(self) -> bytes:
        lines = [msgspec.json.encode(Head(self.partitions))]
        streams = {events_stream(p): f"{subjects.EVENTS}.{p}.>" for p in range(self.partitions)}
        streams |= {RESULTS: f"{subjects.RESULTS}.>", stream_of(PLAYBOOKS): subjects.key(PLAYBOOKS)}
        for stream, every in streams.items():
            for message in await self.bus.read(stream, [every]):
                line = Line(message.subject, message.seq, message.at, message.data.decode())
                lines.append(msgspec.json.encode(line))
        return b"\n".join(lines) + b"\n"


async def happen(stack: Stack, dsn: str) -> None:
    for execution_id, (path, payload) in ASKED.items():
        await stack.start(execution_id, path, payload)
    await stack.start("rows", "golden/rows", {"dsn": dsn})
    for execution_id in ("cancelled", "paused", "goes-on"):
        await stack.says(execution_id, b'"step.started"')
    await stack.want(subjects.CANCEL, "cancelled", reason="not needed")
    for execution_id in ("paused", "goes-on"):
        await stack.want(subjects.PAUSE, execution_id)
        await stack.says(execution_id, b'"step.done"')
    await stack.want(subjects.RESUME, "goes-on")
    for execution_id, approved in (("granted", True), ("refused", False)):
        await stack.says(execution_id, b'"task.waiting"')
        await stack.want(subjects.SIGNAL, execution_id, name="approval", payload={"approved": "perhaps"})
        await stack.want(subjects.SIGNAL, execution_id, name="approval", payload={"approved": approved})
    for execution_id, step in AGAIN.items():
        await stack.says(execution_id, END)
        await stack.want(subjects.RERUN, execution_id, name=step)
    await stack.all_over()
