"""What a pool needs done: what is wanted of it and what is there give the next steps. Pure.

1. Too few workers: the missing ones are started.
2. Too many: the idle ones go first, then those with the least to finish.
3. Workers of an earlier document go one at a time, each after a new one is ready in its place.
4. A drain waits until nobody holds anything or its time is over; then every worker goes, and hands back what
   it has not finished.
5. A worker that was there and has said nothing for too long is killed, also while it is going: a frozen process hears
   nothing else. Another is started in its place, as one that ended by itself is.
A worker that is stopping does not count: it accepts nothing new.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

State = Literal[
    "ready", "scaling", "paused", "draining", "drained", "deleting", "failing", "crashing", "silent", "waiting",
    "empty",
]
SILENT_S = 5.0  # without a beat, of which there are over three in that time
FAILING_AFTER = 3  # short lives of a worker in a row
CRASHING_AFTER = 3  # lives of the pool's workers that ended by themselves, however long, within CRASHING_S
CRASHING_S = 300.0


class Wanted(Struct, frozen=True):
    """`template` says how a worker is started: another one means another worker. `drain`: what is wanted is that
    nobody holds anything; `drain_over` when that is so, or its time is. `blocked`: why nothing can be started.
    Not `ours`: someone else starts and ends the workers. After `silent_s` without a word a worker is given up."""

    workers: int
    template: str
    drain_s: float = 20.0
    drain: bool = False
    drain_over: bool = False
    deleting: bool = False
    blocked: str = ""
    ours: bool = True
    silent_s: float = 30.0


class Seen(Struct, frozen=True):
    """A worker of ours. `ready`: it says that it is there; `held` is how many runs it has. `silent_s`: for how long it
    has said nothing, once it had."""

    name: str
    template: str
    ready: bool = False
    held: int = 0
    stopping: bool = False
    failures: int = 0
    silent_s: float = 0.0


class Start(Struct, frozen=True):
    count: int


class Stop(Struct, frozen=True):
    """It has `within_s` to finish what it holds; then it hands the rest back."""

    name: str
    within_s: float


class Kill(Struct, frozen=True):
    name: str
    silent_s: float


Action = Start | Stop | Kill


def decide(wanted: Wanted, seen: Sequence[Seen]) -> list[Action]:
    frozen = [Kill(worker.name, worker.silent_s) for worker in seen if worker.silent_s > wanted.silent_s]
    return [*(frozen if wanted.ours else ()), *_toward(wanted, seen)]


def _toward(wanted: Wanted, seen: Sequence[Seen]) -> list[Action]:
    live = [worker for worker in seen if not worker.stopping]
    if not wanted.ours or (wanted.drain and not wanted.drain_over):
        return []
    if wanted.drain or wanted.deleting:
        return [Stop(worker.name, 0.0 if wanted.drain else wanted.drain_s) for worker in live]
    missing = wanted.workers - len(live)
    if missing > 0:
        return [] if wanted.blocked else [Start(missing)]
    old = [worker for worker in live if worker.template != wanted.template]
    going = _leaving(wanted, live, old)
    if going:
        return [Stop(worker.name, wanted.drain_s) for worker in going]
    in_place = all(worker.ready for worker in live if worker.template == wanted.template)
    return [Start(1)] if old and missing == 0 and wanted.workers and in_place and not wanted.blocked else []


def _leaving(wanted: Wanted, live: list[Seen], old: list[Seen]) -> list[Seen]:
    """Old ones first; while a new one is not ready, the old one it replaces stays."""
    extra = len(live) - wanted.workers
    unready = any(not worker.ready for worker in live if worker.template == wanted.template)
    if old and unready and wanted.workers:
        extra -= 1
    outdated = {worker.name for worker in old}
    order = sorted(live, key=lambda worker: (worker.name not in outdated, worker.ready, worker.held, worker.name))
    return order[: max(0, extra)]


def state(wanted: Wanted, seen: Sequence[Seen], *, paused: bool, crashes: int = 0) -> State:
    """One word for people. `crashes` are the lives of its workers that ended by themselves in the last CRASHING_S."""
    live = [worker for worker in seen if not worker.stopping]
    if wanted.deleting:
        return "deleting"
    if wanted.drain:
        return "drained" if wanted.drain_over and not (seen and wanted.ours) else "draining"
    if paused:
        return "paused"
    if wanted.blocked:
        return "waiting"
    if any(worker.failures >= FAILING_AFTER for worker in live):
        return "failing"
    if crashes >= CRASHING_AFTER:
        return "crashing"
    if any(is_silent(worker) for worker in live):
        return "silent"
    if wanted.workers == 0 and not live:
        return "empty"
    return "ready" if settled(wanted, seen) else "scaling"


def is_silent(worker: Seen) -> bool:
    return worker.silent_s > SILENT_S


def settled(wanted: Wanted, seen: Sequence[Seen]) -> bool:
    """The workers that are wanted are there and ready. Those that are going may still finish something."""
    live = [worker for worker in seen if not worker.stopping]
    if wanted.drain or wanted.deleting:
        return not live and wanted.ours
    return len(live) == wanted.workers and all(
        worker.ready and (worker.template == wanted.template or not wanted.ours) for worker in live
    )


class Drained(Struct, frozen=True):
    """How a drain went. `left`: workers that are not ours still hold them."""

    finished: int = 0
    left: int = 0
    handed_back: int = 0


def drained(before: int, now: int, held: int) -> Drained:
    """`before` and `now` are the deliveries that are not acknowledged, at the pause and at the end; `held` are
    those that a worker still has."""
    left = min(held, now)
    return Drained(max(0, before - now), left, now - left)
