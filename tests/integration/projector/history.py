"""Logs to project: an in-memory log that can be followed, and seeded histories with everything in them."""

import asyncio
import random
from collections.abc import Iterator, Sequence
from typing import Any, cast

from shared.bus import topology
from shared.bus.ports import Bus, Message
from shared.errors import Corrupt
from shared.events import model as ev
from shared.events import subjects
from shared.events.outcome import Result, failed, ok
from shared.events.record import Epoch, Lease, Record, Writer, encode, subject_of
from shared.events.stamp import stamp

PARTITIONS = 3
T0 = 1_700_000_000.0


class Log:
    """The part of a bus that the projector uses."""

    def __init__(self, partitions: int = PARTITIONS) -> None:
        self.streams: dict[str, list[Message]] = {topology.events_stream(p): [] for p in range(partitions)}
        self.partitions = partitions
        self.news = asyncio.Event()

    @property
    def bus(self) -> Bus:
        return cast(Bus, self)

    def write(self, record: Record) -> Message:
        p = subjects.partition_of(record.execution_id, self.partitions)
        return self.write_raw(p, subject_of(record, self.partitions), encode(record))

    def write_raw(self, partition: int, subject: str, data: bytes) -> Message:
        held = self.streams[topology.events_stream(partition)]
        held.append(Message(subject, data, len(held) + 1))
        self.news.set()
        return held[-1]

    def messages(self, partition: int) -> list[Message]:
        return self.streams[topology.events_stream(partition)]

    def follow(self, stream: str, filters: Sequence[str], after: int, *, lazy: bool = False) -> "LogFollower":
        assert filters == [f"noetl.events.{stream.rpartition('_')[2]}.>"]
        return LogFollower(self, self.streams[stream], after)

    async def last_seq(self, stream: str) -> int:
        return len(self.streams[stream])


class LogFollower:
    def __init__(self, log: Log, held: list[Message], after: int) -> None:
        self._log, self._held, self._after = log, held, after

    async def batch(self) -> list[Message]:
        if self._after > len(self._held):
            raise Corrupt("the stream ends before the cursor")
        while len(self._held) <= self._after:
            self._log.news.clear()
            await self._log.news.wait()
        taken = self._held[self._after : self._after + 50]
        self._after += len(taken)
        return taken

    async def close(self) -> None: ...


class Story:
    """Writes one execution's records, counting as the writers do."""

    def __init__(self, execution_id: str) -> None:
        self.id = execution_id
        self.clock = T0
        self.records: list[Record] = []
        self._next: dict[object, int] = {}

    def by(self, writer: Writer, *events: ev.Event, lease: Lease | None = None) -> Record:
        self.clock += 1
        key = lease or writer
        n = self._next.get(key, 1)
        self._next[key] = n + len(events)
        record = Record(self.id, writer, n, stamp(self.clock), events, lease=lease)
        self.records.append(record)
        return record

    def router(self, *events: ev.Event) -> Record:
        return self.by("router", *events)

    def scheduler(self, *events: ev.Event) -> Record:
        return self.by("scheduler", *events)

    def worker(self, lease: Lease, *events: ev.Event) -> Record:
        return self.by("worker" if lease.index < 0 else "iteration", *events, lease=lease)

    def begin(self, path: str = "demo/flow", parent: ev.Parent | None = None) -> None:
        self.router(
            ev.ExecutionRequested(path, "1", {"a": 1}, parent=parent, labels={"team": "data"}),
            ev.RequestEvaluated("d1"),
            ev.PlaybookStarted({"a": 1, "b": [1, 2]}), ev.WorkflowStarted(), ev.TokenCreated("t1", "start"),
        )  # fmt: skip

    def schedule(self, step: str, *, loop: bool = False) -> None:
        self.router(ev.StepScheduled(f"{step}:1", step, ("t1",), "d1", "default", loop))

    def finish(self) -> None:
        self.router(ev.WorkflowFinished(), ev.PlaybookProcessed("completed", Result({"sum": 3})))


def lease(step: str = "fetch", epoch: Epoch = (10, 1), index: int = -1) -> Lease:
    return Lease(f"{step}:1", step, epoch, f"worker-{epoch[1]}", index)


def page(number: int, *, bad: bool = False) -> tuple[ev.Event, ...]:
    outcome = failed("connect", "no answer", retryable=True) if bad else ok({"page": number, "text": "ä\\u0000"})
    if bad:
        return (ev.TaskStarted("fetch"), ev.TaskRetried("fetch", 1, outcome, 0.5))
    return (ev.TaskStarted("fetch"), ev.TaskDone("fetch", 1, outcome, "jump", "fetch", {"page": number + 1}))


def random_story(execution_id: str, rng: random.Random) -> list[Record]:
    story = Story(execution_id)
    story.begin(parent=ev.Parent("above", "call:1", "call/1") if rng.random() < 0.3 else None)
    story.schedule("fetch")
    _paginated(story, rng)
    story.router(
        ev.CtxPatched("fetch:1", {"total": {"$add": 1}, "last": rng.randrange(9)}),
        ev.NextSelected("fetch:1", "fetch", "step.done", ("each",)),
    )
    _loop(story, rng)
    story.router(ev.CtxPatched("each:1", {"total": {"$add": 2}, "all": {"$append": execution_id}, "none": None}))
    if rng.random() < 0.3:
        story.router(ev.PlaybookPaused("lunch", "someone"))
        story.router(ev.PlaybookResumed("someone"))
    end = rng.random()
    if end < 0.6:
        story.finish()
    elif end < 0.8:
        story.router(ev.PlaybookCancelling(stamp(story.clock + 10), "enough"))
        if rng.random() < 0.5:
            story.router(ev.PlaybookCompensating("cancelled", {"kind": "cancelled"}, stamp(story.clock)))
        story.router(ev.WorkflowFinished("cancelled"), ev.PlaybookProcessed("cancelled", None, {"kind": "cancelled"}))
    return story.records


def _paginated(story: Story, rng: random.Random) -> None:
    first, second = lease(), lease(epoch=(10, 2))
    story.worker(first, ev.StepStarted(), *page(1))
    story.worker(first, *page(2, bad=True))
    holder = first
    if rng.random() < 0.5:  # the first worker stalls inside a task, and wakes up when another has taken over
        story.worker(first, ev.TaskStarted("fetch", 2))
        story.worker(second, ev.StepStarted(), *page(2))
        story.worker(first, ev.TaskDone("fetch", 2, ok(0), "continue"), ev.StepDone(Result("zombie")))
        holder = second
    if rng.random() < 0.5:
        holder = _waited(story, holder)
    done = story.worker(holder, *page(3), ev.StepDone(Result([1, 2, 3]), ({"last": 3},)))
    if rng.random() < 0.5:
        story.records.append(done)  # published twice after a timeout


def _waited(story: Story, holder: Lease) -> Lease:
    """The holder calls a playbook and lets go of the run; another worker goes on with the child's result."""
    child = ev.Child(f"{story.id}-child", "demo/child")
    story.by("waiting", ev.TaskStarted("call"), ev.TaskWaiting("call", 1, "call/4", child), lease=holder)
    ended = ev.ChildEnded("fetch:1", "call/4", child.execution_id, "completed", result=Result(7))
    told = Record(story.id, "control", 1, stamp(story.clock), (ended,), source=child.execution_id)
    story.records += [told, told]
    story.scheduler(ev.TaskResumed("fetch:1", "call/4", outcome=ok(7)))
    after = lease(epoch=(30, 1))
    story.worker(after, ev.StepStarted(), ev.TaskDone("call", 1, ok(7), "jump", "fetch"))
    return after


def _loop(story: Story, rng: random.Random) -> None:
    story.schedule("each", loop=True)
    count = rng.randrange(1, 6)
    story.scheduler(ev.LoopStarted("each:1", "each", count, list(range(count)), max_in_flight=2))
    story.scheduler(ev.IterationStarted("each:1", 0, count))
    leases = [lease("each", (20 + i, 1), i) for i in range(count)]
    for held in rng.sample(leases, count):
        story.worker(held, ev.StepStarted(), ev.TaskStarted("work"))
    broken = rng.random() < 0.3
    for held in leases[: count - broken]:
        story.worker(held, ev.TaskDone("work", 1, ok(1), "continue"), ev.IterationDone(Result(held.index)))
    if broken:
        story.scheduler(ev.StepFailed({"kind": "timeout"}, run_id="each:1", step="each"))
        story.worker(leases[-1], ev.IterationDone(Result("late")))
        story.router(ev.NextSelected("each:1", "each", "step.failed"))
    else:
        clash: dict[str, Any] = {"kind": "ctx_conflict"}
        story.scheduler(
            ev.IterationFailed(clash, run_id="each:1", index=0),
            ev.LoopDone("each:1", "each", Result([None] * count, "loop"), count, 1),
        )
        story.router(ev.NextSelected("each:1", "each", "loop.done"))


def random_log(seed: int, executions: int = 12) -> Log:
    """Several executions, woven together at random; each in its own order."""
    rng, log = random.Random(seed), Log()
    stories = [random_story(f"x{seed}-{i}", rng) for i in range(executions)]
    for record in _woven(stories, rng):
        log.write(record)
    return log


def _woven(stories: list[list[Record]], rng: random.Random) -> Iterator[Record]:
    waiting = [iter(story) for story in stories]
    while waiting:
        chosen = rng.choice(waiting)
        record = next(chosen, None)
        if record is None:
            waiting.remove(chosen)
        else:
            yield record
