"""What a program had printed when its call was cut short is in the log: however that came about, without secrets, and
not more than fits."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from services.worker.run import LAST_BYTES
from services.worker.service import Worker
from shared.bus import topology
from shared.bus.memory.broker import MemoryBroker
from shared.bus.memory.bus import MemoryBus
from shared.events import command as commands
from shared.events import model as ev
from shared.events import subjects
from shared.events.beat import Saying
from shared.events.bounds import MAX_BEAT_TEXT, MAX_PRINTED
from shared.events.command import Command, Local
from shared.events.outcome import Outcome, failed, ok
from shared.events.record import decode
from shared.events.stamp import stamp
from shared.events.stop import Stop
from shared.runtime.service.clock import SystemClock
from shared.runtime.service.settings import Settings
from shared.runtime.stores import heartbeats
from shared.runtime.stores.catalog import register
from shared.tools.base.contract import Call, ToolOptions
from shared.tools.base.guard import guarded
from shared.tools.toolbox import Tools
from tests.support.waiting import until
from tests.unit.engine.support import HEAD, plan_of

SECRET = "s3cr3t-of-the-shop"
STEP = "- {step: start, tool: {kind: http, url: 'http://example.org', auth: shop}}"
LOCAL = "- {step: start, loop: {in: [1, 2], iterator: n, spec: {mode: parallel, max_in_flight: 2, policy: " \
    "{exec: local}}}, tool: {kind: http, url: 'http://example.org'}}"


class Program:
    """Prints, and then hangs. As python it says so when it is cut short, as a shell it ends with an outcome."""

    def __init__(self, said: str, *, as_shell: bool) -> None:
        self._said, self._as_shell = said, as_shell
        self.hangs = asyncio.Event()

    async def run(self, call: Call) -> Outcome:
        printed: dict[str, Any] = {}
        return await guarded(call, self._run(call, printed), meta=printed)

    async def _run(self, call: Call, printed: dict[str, Any]) -> Outcome:
        self.hangs.set()
        if call.printing is not None:
            call.printing.so_far = lambda most: {"stdout": self._said[-most:], "stderr": ""}
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if self._as_shell:
                return failed("timeout", "no result", result={"stdout": self._said, "stderr": "oh\n"})
            printed["stdout"] = self._said
            raise
        return ok()

    async def close(self) -> None:
        """Nothing was opened."""


class Stage:
    """A worker that runs one command, and what it has written about it."""

    def __init__(self, bus: MemoryBus, program: Program, task: "asyncio.Task[None]") -> None:
        self.bus, self.program, self.task = bus, program, task

    async def stop(self) -> None:
        told = msgspec.json.encode(Stop("default", "x1", "start:1"))
        await self.bus.publish(subjects.stops("default"), told)

    async def event(self, *kinds: type[ev.Event]) -> Any:
        writers = ["worker", "iteration"]
        follower = self.bus.follow(topology.events_stream(0), subjects.written(0, "x1", writers), 0)
        async with asyncio.timeout(20):
            while True:
                for message in await follower.batch():
                    for event in decode(message, 1).events:
                        if isinstance(event, kinds):
                            return event


@pytest.fixture
def staged() -> Callable[..., Any]:
    @asynccontextmanager
    async def staged(
        said: str = "before the hang\n", *, workflow: str = STEP, as_shell: bool = False, **command: Any
    ) -> AsyncIterator[Stage]:
        broker = MemoryBroker(SystemClock())
        broker.ensure(topology.wanted(partitions=1))
        bus, program = MemoryBus(broker), Program(said, as_shell=as_shell)
        await bus.kv_put(topology.KEYCHAIN, "shop", msgspec.json.encode({"token": SECRET}))
        source = f"{HEAD}workload: {{}}\nworkflow:\n  {workflow}".encode()
        entry = await register(bus, source, plan_of(workflow))
        asked = Command("x1", "start:1", "start", entry.digest, "default", 0, **command)
        await bus.append(subjects.command("default", "x1", "start:1"), commands.encode(asked))

        class OneTool(Tools):
            def get(self, kind: str) -> Any:
                return program

        worker = Worker(bus, Settings(instance="w1", partitions=1), SystemClock(), OneTool(ToolOptions()))
        task = asyncio.create_task(worker.run(asyncio.Event(), lambda: None))
        try:
            async with asyncio.timeout(20):
                await program.hangs.wait()
            await asyncio.sleep(0.2)  # task.started is written meanwhile
            yield Stage(bus, program, task)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    return staged


async def test_a_run_that_is_told_to_stop_says_what_its_call_had_printed(staged: Callable[..., Any]) -> None:
    async with staged() as stage:
        await stage.stop()
        ended = await stage.event(ev.StepFailed)
    assert ended.error["kind"] == "cancelled"
    assert ended.printed == ev.Printed("start_task", 1, {"stdout": "before the hang\n"})


async def test_so_does_one_whose_tool_ends_with_an_outcome(staged: Callable[..., Any]) -> None:
    async with staged(as_shell=True) as stage:
        await stage.stop()
        ended = await stage.event(ev.StepFailed)
    assert ended.printed == ev.Printed("start_task", 1, {"stdout": "before the hang\n", "stderr": "oh\n"})


async def test_so_does_a_worker_that_ends(staged: Callable[..., Any]) -> None:
    async with staged() as stage:
        stage.task.cancel()
        released = await stage.event(ev.LeaseReleased)
    assert released.printed == ev.Printed("start_task", 1, {"stdout": "before the hang\n"})


@pytest.mark.parametrize("as_shell", [False, True])
async def test_so_does_a_run_that_is_over_its_time(staged: Callable[..., Any], as_shell: bool) -> None:
    deadline = stamp(SystemClock().now() + 1.0)
    async with staged(as_shell=as_shell, deadline=deadline) as stage:
        done = await stage.event(ev.TaskDone)
    assert done.outcome.error["kind"] == "timeout"
    if as_shell:
        assert done.outcome.result == {"stdout": "before the hang\n", "stderr": "oh\n"}
    else:
        assert done.outcome.meta["stdout"] == "before the hang\n"


async def test_so_do_the_iterations_of_a_local_loop(staged: Callable[..., Any]) -> None:
    async with staged(workflow=LOCAL, count=2, local=Local(items=[1, 2], most=2)) as stage:
        await stage.stop()
        ended = await stage.event(ev.IterationFailed)
    assert ended.printed == ev.Printed("start_task", 1, {"stdout": "before the hang\n"})


async def test_no_secret_is_in_it_and_not_more_than_fits(staged: Callable[..., Any]) -> None:
    said = f"{SECRET}\n" + "x" * (MAX_PRINTED - len(SECRET) // 2)  # cut, it would begin within the secret
    async with staged(said) as stage:
        await stage.stop()
        ended = await stage.event(ev.StepFailed)
    (text,) = ended.printed.streams.values()
    assert len(text) <= MAX_PRINTED
    assert text.startswith("***\nx")
    async with staged("begun\n" + "x" * MAX_PRINTED) as stage:
        await stage.stop()
        ended = await stage.event(ev.StepFailed)
    assert ended.printed.streams["stdout"] == "…" + "x" * (MAX_PRINTED - 1)


@pytest.mark.parametrize(("said", "lines"), [
    ("before the hang\n", ("before the hang",)),
    (f"1\n2\n3\n4\n{SECRET}\n\x1b[31m6\n", ("2", "3", "4", "***", "\\u001b[31m6")),
    (f"{SECRET}\n" + "x" * (LAST_BYTES - len(SECRET) // 2 - 2) + "\nlast\n", ("x" * MAX_BEAT_TEXT, "last")),
    (f"it is {SECRET[:-4]}", ("it is ***",)),  # half of it is printed
])
async def test_what_a_call_has_printed_last_is_in_the_beats(
    staged: Callable[..., Any], said: str, lines: tuple[str, ...]
) -> None:
    async with staged(said) as stage:
        async def says() -> list[Saying]:
            found = await heartbeats.read_all(stage.bus)
            return [each for beat in found.values() for each in beat.says]

        await until(says, "its worker says what it printed", 20)
        assert await says() == [Saying("x1", "start:1", -1, "start_task", 1, {"stdout": lines})]


async def test_the_iterations_of_a_local_loop_say_it_too(staged: Callable[..., Any]) -> None:
    async with staged(workflow=LOCAL, count=2, local=Local(items=[1, 2], most=2)) as stage:
        async def says() -> list[int]:
            found = await heartbeats.read_all(stage.bus)
            return sorted(each.index for beat in found.values() for each in beat.says)

        await until(says, "its worker says what both printed", 20, so=lambda found: found == [0, 1])
