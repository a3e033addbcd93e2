"""Kill -9 at random while work goes on, and what each kill cut off, as the log shows it afterwards."""

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from shared.answers.history.history import Entry, Key
from shared.answers.verify.reports import TERMINAL
from shared.events import model as ev
from shared.events.record import Epoch
from shared.events.stamp import seconds
from tests.chaos.driving.log import Log
from tests.chaos.driving.support import Cluster

KINDS = ("worker", "scheduler", "router")
SPREAD = 0.9  # the last kill comes before this part of the work is done
JITTER_S = 0.3
STALLED_S = 120.0


class Kill(NamedTuple):
    victim: str
    at: float

    @property
    def kind(self) -> str:
        return self.victim.partition("-")[0]


async def kill_at_random(
    cluster: Cluster, log: Log, seed: int, kills: int, total: int, done: Callable[[], int]
) -> list[Kill]:
    """Victims and moments follow from the seed; a moment is a part of the work, and a little later."""
    choice, made, restarts = random.Random(seed), list[Kill](), list[asyncio.Task[None]]()
    victims = [process.name for kind in KINDS for process in cluster.of(kind)]
    for number in range(kills):
        goal = SPREAD * total * (number + choice.random()) / kills
        victim, later = choice.choice(victims), choice.random() * JITTER_S
        await log.until(lambda _, goal=goal: done() >= goal, f"{goal:.0f} of {total} done", STALLED_S)
        await asyncio.gather(*restarts)
        await cluster.processes[victim].ready()
        await asyncio.sleep(later)
        await cluster.kill(victim)
        made.append(Kill(victim, time.time()))
        await log.poll()
        assert done() < total, "killed too late to say anything"
        restarts = [asyncio.create_task(cluster.start_again(victim))]
    await asyncio.gather(*restarts)
    return made


class Hold(NamedTuple):
    """What one lease said of an iteration: when it spoke first and last, and whether that was its last word."""

    epoch: Epoch
    worker: str
    first: float
    last: float
    ended: bool


def holds(entries: Iterable[Entry]) -> dict[Key, list[Hold]]:
    """Of every iteration the leases that the log shows, in order."""
    found: dict[Key, dict[Epoch, Hold]] = {}
    for _, record in entries:
        lease, at = record.lease, seconds(record.ts)
        if lease is None or lease.index < 0:
            continue
        held = found.setdefault(Key(lease.run_id, lease.index), {})
        before = held.get(lease.epoch, Hold(lease.epoch, lease.worker, at, at, False))
        ended = before.ended or isinstance(record.events[-1], TERMINAL | ev.TaskWaiting)
        held[lease.epoch] = before._replace(last=at, ended=ended)
    return {key: sorted(held.values()) for key, held in found.items()}


def began(entries: Iterable[Entry]) -> dict[Key, float]:
    """When each iteration was given to the pool."""
    return {
        Key(event.run_id, index): seconds(record.ts)
        for _, record in entries
        for event in record.events
        if isinstance(event, ev.IterationStarted)
        for index in range(event.first, event.first + event.count)
    }


def cut_off(entries: Sequence[Entry], kills: Sequence[Kill]) -> dict[Key, list[Kill]]:
    """Of every iteration the kills at which the killed worker had it.

    A worker speaks of a call only after a while. So a delivery that nobody spoke of (the count of the next lease
    tells that there was one) is taken as held by a worker that was killed in that time, if there was one. So is the
    delivery of a command whose first message known is younger than such a kill: it was issued again because of it.
    """
    started, found = began(entries), dict[Key, list[Kill]]()
    workers = [kill for kill in kills if kill.kind == "worker"]
    for key, held in holds(entries).items():
        cuts, since, count, holder = list[Kill](), started[key], 0, ""
        for hold in held:
            between = [kill for kill in workers if since <= kill.at <= hold.first]
            own = [kill for kill in between if kill.victim == holder][:1]
            is_issued_again = not count and any(kill.at <= hold.epoch[0] / 1e9 for kill in between)
            silent = hold.epoch[1] - count - 1 + is_issued_again
            others = [kill for kill in between if kill not in own][: max(0, silent)]
            cuts += own + others
            since, count, holder = hold.last, hold.epoch[1], "" if hold.ended else hold.worker
        found[key] = cuts
    return found
