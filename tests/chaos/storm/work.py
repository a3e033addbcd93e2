"""The work of a storm: executions of all kinds, started for its whole time, and what each must come to."""

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from shared.bus.jetstream import JetStreamBus
from shared.errors import NoetlError
from shared.events import subjects
from shared.events.request import Control, Request, derive_id
from tests.chaos.storm.ledger import Ledger
from tests.chaos.storm.watch import Watch

MESSAGE_ID = "Nats-Msg-Id"
AGAIN_S = 0.3
MAX_LIVE = 250     # beyond it, nothing is started until some have ended
DELAYS_S = (0.0, 0.02, 0.05)
SLOW_S = (0.3, 1.0, 2.5, 6.0)


class Job(NamedTuple):
    """One execution: how it may end, and the calls that must have been made if it completes."""

    execution_id: str
    path: str
    payload: dict[str, Any]
    ends: tuple[str, ...]
    calls: frozenset[str]
    began: float
    wish: str = ""        # cancel, signal, rerun
    wish_after: float = 0.0


class Kind(NamedTuple):
    name: str
    weight: int
    calls: Callable[[int], set[str]]
    ends: tuple[str, ...] = ("completed",)
    most: int = 1         # iterations
    wish: str = ""
    slow: bool = False


def _each(*more: str) -> Callable[[int], set[str]]:
    return lambda n: {f"each-{k}" for k in range(n)} | set(more)


def _just(*names: str) -> Callable[[int], set[str]]:
    return lambda _n: set(names)


KINDS = (
    Kind("chain", 6, _just("one", "two", "three", "four")),
    Kind("parallel", 3, _each("last"), most=6),
    Kind("sequential", 2, lambda n: {f"{what}-{k}" for k in range(n) for what in ("each", "then")}, most=3),
    Kind("local", 2, _each("last"), most=8),
    Kind("retry", 2, _just("soon", "later")),
    Kind("waits", 2, _just("one", "two", "three")),
    Kind("signal", 2, _just("one", "two"), wish="signal"),
    Kind("parent", 1, _just("last"), most=3),
    Kind("cancelled", 3, _each("last"), ("cancelled", "completed"), most=8, wish="cancel", slow=True),
    Kind("joins", 2, _just("one", "a", "b", "c", "meet")),
    Kind("limits", 2, _each("one"), most=3),
    Kind("gate", 2, _just("one", "gate", "last"), ("failed",), wish="rerun"),
    Kind("failfast", 1, lambda n: {"rescue"} if n > 1 else set(), most=6, slow=True),  # the second one fails
    Kind("slow", 4, _just("t0", "t1", "t2", "t3", "last"), slow=True),
)
DOORS = 4


class Work:
    """Starts jobs at a rate, and follows each with what was planned for it."""

    def __init__(self, bus: JetStreamBus, ledger: Ledger, watch: Watch, seed: int, rate: float) -> None:
        self._bus, self._ledger, self._watch, self._rate = bus, ledger, watch, rate
        self._rng, self._seed = random.Random(f"work/{seed}"), seed
        self.jobs: dict[str, Job] = {}
        self.held_back_s = 0.0
        self._following: set[asyncio.Task[None]] = set()

    async def go_on(self, until: float) -> None:
        """Until that monotonic time; then waits until every wish is said."""
        due = time.monotonic()
        while due < until:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            while len(self.jobs) - self._watch.ended(self.jobs) > MAX_LIVE and time.monotonic() < until:
                self.held_back_s += AGAIN_S
                await asyncio.sleep(AGAIN_S)
            job = self._draw()
            self.jobs[job.execution_id] = job
            self._follow(self._live(job))
            due = max(due + self._rng.expovariate(self._rate), time.monotonic() - 1.0)
        while self._following:
            await asyncio.gather(*self._following)

    def _draw(self) -> Job:
        rng = self._rng
        kind = rng.choices(KINDS, weights=[kind.weight for kind in KINDS])[0]
        execution_id, n = f"storm-{self._seed}-{len(self.jobs)}", rng.randint(1, kind.most)
        payload: dict[str, Any] = {
            "ledger": self._ledger.url, "delay": rng.choice(SLOW_S if kind.slow else DELAYS_S), "n": n,
            "door": rng.randrange(DOORS), "gate": execution_id if kind.wish == "rerun" else "",
        }
        after = rng.expovariate(1 / 5.0) if kind.wish else 0.0
        calls = frozenset(kind.calls(n))
        return Job(execution_id, f"storm/{kind.name}", payload, kind.ends, calls, time.monotonic(), kind.wish, after)

    def _follow(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._following.add(task)
        task.add_done_callback(self._following.discard)

    async def _live(self, job: Job) -> None:
        await self._send(subjects.EXECUTE, Request(job.path, payload=job.payload, execution_id=job.execution_id), "run")
        if not job.wish:
            return
        await self._watch.began(job.execution_id)  # a wish for what is not there yet is refused
        await asyncio.sleep(job.wish_after)
        await getattr(self, f"_{job.wish}")(job)

    async def _cancel(self, job: Job) -> None:
        await self._send(subjects.CANCEL, Control(job.execution_id, reason="planned", grace_s=2.0), "cancel")

    async def _signal(self, job: Job) -> None:
        await self._send(subjects.SIGNAL, Control(job.execution_id, name="go", payload={"ok": True}), "signal")

    async def _rerun(self, job: Job) -> None:
        """Once it has failed; the new execution's id follows from the message's."""
        await self._watch.over(job.execution_id)
        self._ledger.open.add(job.execution_id)
        message_id = f"{job.execution_id}/rerun"
        again = derive_id("id", message_id)
        calls = job.calls - {"one"}
        self.jobs[again] = Job(again, job.path, job.payload, ("completed",), calls, time.monotonic())
        await self._send(subjects.RERUN, Control(job.execution_id), "rerun")

    async def _send(self, subject: str, asked: Request | Control, word: str) -> None:
        """Until it is stored; the message id makes one of several."""
        headers = {MESSAGE_ID: f"{asked.execution_id}/{word}"}
        while True:
            with suppress(NoetlError):
                await self._bus.append(subject, msgspec.json.encode(asked), headers=headers)
                return
            await asyncio.sleep(AGAIN_S)
