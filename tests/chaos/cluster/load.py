"""What goes on meanwhile: chains of ten steps at a constant rate, as W2 has them, and one loop after the other."""

import asyncio
import time
from collections import Counter
from contextlib import suppress
from typing import Any

import msgspec

from shared.bus import topology
from shared.bus.jetstream import JetStreamBus
from shared.errors import NoetlError
from shared.events import model as ev
from shared.events import subjects
from shared.events.record import readable
from shared.events.request import Request
from shared.events.stamp import seconds
from tests.chaos.cluster.recovery import Seen
from tests.chaos.storm.ledger import Ledger
from tests.chaos.storm.watch import Watch

MESSAGE_ID = "Nats-Msg-Id"
AGAIN_S = 0.2


class Load:
    """`asked` has the wall clock's time of each execution; those of loops are in `loops` too."""

    def __init__(self, bus: JetStreamBus, watch: Watch, outside: Ledger, rate: float, loop: int) -> None:
        self._bus, self._watch, self._outside, self._rate, self._n = bus, watch, outside, rate, loop
        self.asked: dict[str, float] = {}
        self.loops: list[str] = []

    async def chains(self, stop: asyncio.Event) -> None:
        due = time.monotonic()
        async with asyncio.TaskGroup() as group:
            while not stop.is_set():
                group.create_task(self._ask(f"chain-{len(self.asked)}", "cluster/chain"))
                due += 1 / self._rate
                await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def loop_after_loop(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            name = f"loop-{len(self.loops)}"
            self.loops.append(name)
            await self._ask(name, "cluster/loop", ledger=self._outside.url, n=self._n)
            await self._watch.over(name)

    async def _ask(self, execution_id: str, path: str, **payload: Any) -> None:
        """Until it is stored; the message id makes one of several."""
        self.asked[execution_id] = time.time()
        asked = msgspec.json.encode(Request(path, payload=payload, execution_id=execution_id))
        while True:
            with suppress(NoetlError):
                await self._bus.append(subjects.EXECUTE, asked, headers={MESSAGE_ID: execution_id})
                return
            await asyncio.sleep(AGAIN_S)

    def waiting(self, before: float) -> list[str]:
        """Chains that were asked for before that time and are not over."""
        return [each for each, at in self.asked.items()
                if at < before and each not in self._watch.ends and each not in self.loops]

    async def seen(self) -> list[Seen]:
        """Of every chain, by the log."""
        began: dict[str, float] = {}
        ended: dict[str, float] = {}
        for partition in range(topology.PARTITIONS):
            filters = subjects.events_by(partition, subjects.ROUTER)
            for _, record in readable(await self._bus.read(topology.events_stream(partition), filters),
                                      topology.PARTITIONS):
                began.setdefault(record.execution_id, seconds(record.ts))
                if any(isinstance(event, ev.PlaybookProcessed) for event in record.events):
                    ended[record.execution_id] = seconds(record.ts)
        return [Seen(at, began[each], ended[each]) for each, at in self.asked.items()
                if each in ended and each not in self.loops]

    def calls(self) -> dict[str, Counter[int]]:
        """Of each loop, how often each iteration called."""
        found = {name: Counter[int]() for name in self.loops}
        for call in self._outside.calls:
            found[call.execution][int(call.what)] += 1
        return found
