"""Hostile input under load: python -m tests.chaos.hostile --rounds 20 --seed N

Rounds of W2 (executions of ten steps), turn about in peace and while records, requests, heartbeats and the worst
templates we know of are thrown in at random. In the end every other execution has completed, no service was started
again, and `verify --all` names only what was forged."""

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from collections import Counter
from contextlib import suppress
from typing import Any

import msgspec

from services.cli.verify.checker import Checker, Summary, everything
from shared.bus import topology
from shared.bus.jetstream import JetStreamBus, connect
from shared.bus.permissions import worker_user
from shared.bus.streams import ensure
from shared.errors import NoetlError
from shared.events import subjects
from shared.events.stamp import stamp
from shared.events.subjects import inbox_prefix
from tests.chaos.driving.support import ONE, POOL, Cluster, register
from tests.chaos.storm.watch import Watch
from tests.security.forgeries import UNFITTING, UNREADABLE, Target
from tests.security.hostile_input import BEATS, REQUESTS
from tests.security.worst_templates import SCOPE, WORST
from tests.support.paths import ROOT
from tests.support.terminal import say

OTHER = "other"
CHAIN = ROOT / "benchmarks" / "playbooks" / "chain.yaml"
STEPS = 10
RECORDS = 100  # in all rounds together
WITHIN_S = 120.0
LOOK_S = 0.02
MIN_SHARE = 0.7
BOOK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {{ name: worst-{n}, path: hostile/worst-{n} }}
workload: {{ rows: [], t: "", n: 0 }}
workflow:
  - step: start
    tool: {{ kind: noop }}
    next: {{ arcs: [{{ step: end, when: {when}, args: {{ x: {when} }} }}] }}
  - step: end
    tool: {{ kind: noop }}
"""


class Hostile(Cluster):
    """A second pool without workers, whose credentials somebody has."""

    pools = (POOL, OTHER)

    async def _make_streams(self, bus: JetStreamBus) -> None:
        await ensure(bus, topology.wanted(self.pools))
        await register(bus, CHAIN.read_bytes())
        for n, template in enumerate(WORST):
            await register(bus, BOOK.format(n=n, when=json.dumps(template)).encode())


class Round:
    """So many executions of ten steps, all at once."""

    def __init__(self, bus: JetStreamBus, watch: Watch, name: str, count: int) -> None:
        self._bus, self._watch = bus, watch
        self.ids = [f"{name}-{n}" for n in range(count)]

    async def run(self) -> float:
        """Steps per second."""
        began = time.monotonic()
        data = [msgspec.json.encode({"path": "bench/chain", "execution_id": each}) for each in self.ids]
        await asyncio.gather(*[await self._bus.send(subjects.EXECUTE, each) for each in data])
        async with asyncio.timeout(WITHIN_S):
            while self._watch.ended(self.ids) < len(self.ids):
                await self._watch.look()
                await asyncio.sleep(LOOK_S)
        return len(self.ids) * STEPS / (time.monotonic() - began)


class Enemy:
    """Throws what is on its list, in an order of its own."""

    def __init__(self, admin: JetStreamBus, worker: JetStreamBus, seed: int, watch: Watch) -> None:
        self._admin, self._worker, self._watch = admin, worker, watch
        self._random = random.Random(seed)
        self._left: list[tuple[str, Any]] = [
            *(("record", each) for each in self._random.choices((*UNREADABLE, *UNFITTING), k=RECORDS)),
            *(("request", each) for each in REQUESTS), *(("beat", each) for each in BEATS),
            *(("template", n) for n in range(len(WORST))),
        ]
        self._random.shuffle(self._left)
        self.thrown: Counter[str] = Counter()
        self.refused = 0
        self.victims: set[str] = set()
        self.started: list[str] = []

    async def throw(self, share: float, victims: list[str], over_s: float) -> None:
        for _ in range(max(1, round(share * (RECORDS + len(REQUESTS) + len(BEATS) + len(WORST))))):
            if not self._left:
                return
            kind, what = self._left.pop()
            await asyncio.sleep(self._random.uniform(0, 2 * over_s / 20))
            self.thrown[kind] += 1
            try:
                await getattr(self, f"_{kind}")(what, self._random.choice(victims))
            except NoetlError:
                self.refused += 1

    async def _record(self, forgery: Any, victim: str) -> None:
        partition = subjects.partition_of(victim, topology.PARTITIONS)
        target = Target(victim, partition, "start:1", "start", "start_task", "worker-g",
                        (int(time.time() * 1e9), 1), POOL, OTHER, stamp(time.time()))
        subject, data = forgery.build(target)
        self.victims.add(victim)
        self.victims.add(subject.split(".")[3])
        await self._worker.append(subject, data)

    async def _request(self, request: tuple[str, bytes], _: str) -> None:
        await self._admin.append(subjects.EXECUTE, request[1])

    async def _beat(self, beat: tuple[str, bytes], _: str) -> None:
        await self._worker.append(f"$KV.{topology.WORKERS}.{OTHER}.liar-{self.thrown['beat']}", beat[1])

    async def _template(self, n: int, _: str) -> None:
        self.started.append(f"worst-{n}")
        await self._admin.append(subjects.EXECUTE, msgspec.json.encode(
            {"path": f"hostile/worst-{n}", "execution_id": f"worst-{n}", "payload": SCOPE}))


async def hostile(wanted: argparse.Namespace) -> list[str]:
    """What is wrong in the end."""
    cluster = Hostile(ONE)
    try:
        await cluster.open()
        return await _judged(cluster, wanted)
    finally:
        await asyncio.to_thread(cluster.close)


async def _judged(cluster: Hostile, wanted: argparse.Namespace) -> list[str]:
    bus = await cluster.connect()
    worker = await connect(cluster.nats.url_for(worker_user(OTHER)), inbox_prefix=inbox_prefix(worker_user(OTHER)))
    watch = Watch(bus)
    pids = {name: process.pid for name, process in cluster.processes.items()}
    enemy = Enemy(bus, worker, wanted.seed, watch)
    peace, war, wrong = [], [], list[str]()
    try:
        await Round(bus, watch, "warm", wanted.executions).run()
        for n in range(wanted.rounds):
            peace.append(await Round(bus, watch, f"peace-{n}", wanted.executions).run())
            round_ = Round(bus, watch, f"war-{n}", wanted.executions)
            throwing = asyncio.create_task(enemy.throw(1 / wanted.rounds, round_.ids, 0.5))
            with suppress(TimeoutError):
                war.append(await round_.run())
            await throwing
        await _until_ended(watch, enemy.started)
        wrong += [f"{each} ended as {watch.ends.get(each)}" for kind in ("peace", "war", "warm")
                  for each in _named(kind, wanted) if watch.ends.get(each) != "completed"]
        wrong += [f"{each} has not ended" for each in enemy.started if each not in watch.ends]
        wrong += [f"{name} was started again or is gone" for name, process in cluster.processes.items()
                  if not process.running or process.pid != pids[name]]
        summary: Summary = await everything(Checker(bus, topology.PARTITIONS, None, 0.0))
        named = {verdict.execution_id for verdict in summary.listed.values()}
        wrong += [f"verify names {each}, which nobody touched" for each in named - enemy.victims]
        share = statistics.median(war) / statistics.median(peace)
        say(f"thrown: {dict(enemy.thrown)}; refused by the broker: {enemy.refused}")
        say(f"steps/s, median of {len(peace)} rounds: in peace {statistics.median(peace):.0f}, "
            f"meanwhile {statistics.median(war):.0f}; ratio {share:.2f}")
        say(f"worst templates ended: {Counter(watch.ends.get(each, 'not') for each in enemy.started)}")
        say(f"verify: {summary.words().most_common()}; it names {len(named)} executions; "
            f"letters: {await bus.last_seq(topology.DEAD)}")
        if wanted.measured and share < MIN_SHARE:
            wrong.append(f"steps/s fell to {share:.2f}")
    finally:
        await bus.close()
        await worker.close()
    return wrong


def _named(kind: str, wanted: argparse.Namespace) -> list[str]:
    rounds = [""] if kind == "warm" else [f"-{n}" for n in range(wanted.rounds)]
    return [f"{kind}{each}-{n}" for each in rounds for n in range(wanted.executions)]


async def _until_ended(watch: Watch, executions: list[str]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(WITHIN_S):
            while watch.ended(executions) < len(executions):
                await watch.look()
                await asyncio.sleep(LOOK_S)


def options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.hostile", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--executions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--measured", action="store_true", help="a ratio under 0.7 is wrong")
    return parser.parse_args(words)


def main() -> None:
    wrong = asyncio.run(hostile(options(sys.argv[1:])))
    for each in wrong[:20]:
        say(f"wrong: {each}")
    say("nothing is wrong" if not wrong else f"{len(wrong)} things are wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
