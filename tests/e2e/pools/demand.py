"""The demand of a pool as the pools service answers it, and as the log has it."""

import asyncio
import json
import urllib.error
import urllib.request
from typing import Any

from shared.bus import topology
from shared.bus.ports import Bus
from shared.events import subjects
from shared.events.event_types import lease, scheduler
from shared.events.record import Record, readable
from tests.support.pool_ctl import Ctl, connected

NEAR = 0.10
WORK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: {name}, path: demand/{name}}}
workload: {{count: 1, nap: 0.0}}
workflow:
  - step: start
    spec: {{pool: {pool}}}
    loop: {{in: "{{{{ range(workload.count) | list }}}}", iterator: number,
           spec: {{mode: parallel, max_in_flight: 1000}}}}
    tool: {tool}
"""
NOOP = "{kind: noop}"
NAP = """
      kind: python
      code: |
        import time
        def main(nap):
            time.sleep(nap)
            return nap
      args: {nap: "{{ workload.nap }}"}
"""


def start(ctl: Ctl, pool: str, count: int, nap: float = 0.0, tool: str = NAP) -> str:
    file = ctl.folder / f"demand-{pool}.yaml"
    file.write_text(WORK.format(name=f"demand-{pool}", pool=pool, tool=tool))
    assert ctl("register", str(file))[0] == 0
    payload = json.dumps({"count": count, "nap": nap})
    code, out, err = ctl("execute", f"demand/demand-{pool}", "--payload", payload)
    assert code == 0, err
    return out.strip()


def ask(ctl: Ctl, pool: str) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"{ctl.up.context['health']['pools']}/demand/{pool}", timeout=10) as answer:
            return 200, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def demand(ctl: Ctl, pool: str) -> int:
    """-1: not known at the moment."""
    status, found = ask(ctl, pool)
    assert status in (200, 503), found
    return int(found["demand"]) if status == 200 else -1


class Outstanding:
    """Iterations of some executions that went to a pool and have not ended, by the log, of which only the news are
    read each time."""

    def __init__(self, bus: Bus, executions: tuple[str, ...], partitions: int) -> None:
        self._bus, self._partitions, self._last = bus, partitions, dict.fromkeys(executions, 0)
        self.begun = 0
        self._ended: set[tuple[str, int]] = set()

    async def count(self) -> int:
        for execution, last in self._last.items():
            partition = subjects.partition_of(execution, self._partitions)
            filters = [subjects.events_of(partition, execution)]
            found = await self._bus.read(topology.events_stream(partition), filters, last)
            self._last[execution] = found[-1].seq if found else last
            for _, record in readable(found, self._partitions):
                self._add(record)
        return self.begun - len(self._ended)

    def _add(self, record: Record) -> None:
        for event in record.events:
            if isinstance(event, scheduler.IterationStarted):
                self.begun += event.count
            elif isinstance(event, lease.IterationDone | lease.IterationFailed) and record.lease is not None:
                self._ended.add((record.execution_id, record.lease.index))


def outstanding(ctl: Ctl, *executions: str) -> int:
    async def count() -> int:
        async with connected(ctl) as bus:
            return await Outstanding(bus, executions, ctl.up.context["partitions"]).count()

    return asyncio.run(count())


def is_near(found: int, *said: int) -> bool:
    """Between what the log said before and after, give or take a tenth."""
    return min(said) * (1 - NEAR) <= found <= max(said) * (1 + NEAR)
