"""Work while something happens to the workers: executions of ten steps in a row, as W2 of the benchmarks, each of whose
steps writes a line into a ledger. In the end every line is there once."""

import asyncio
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from services.cli.executions import requests
from services.cli.stack import context
from shared.events.request import Request
from shared.events.subjects import inbox_prefix
from tests.k8s.release import Release
from tests.support.waiting import wait_until

STEPS = 10
EVERY_S = 1.0
NAP_S = 0.3
END_S = 120.0
HEAD = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: load, path: k8s/load-{pool}}}
workload: {{ledger: ""}}
workflow:
"""
STEP = """  - step: {name}
    spec: {{pool: {pool}}}
    tool:
      - name: work
        kind: shell
        cmds: ['sleep {nap}', 'echo "end {{{{ execution_id }}}} {name}" >> "{{{{ workload.ledger }}}}"']
"""


def playbook(pool: str) -> str:
    names = ["start", *(f"s{number}" for number in range(1, STEPS))]
    text = HEAD.format(pool=pool)
    for name, after in zip(names, [*names[1:], ""], strict=True):
        text += STEP.format(name=name, pool=pool, nap=NAP_S)
        text += f"    next: {{arcs: [{{step: {after}}}]}}\n" if after else ""
    return text


class Load(threading.Thread):
    """Until it is told to stop. `started`: the executions."""

    def __init__(self, release: Release, pool: str) -> None:
        super().__init__(name="load", daemon=True)
        self._release, self._pool, self._over = release, pool, threading.Event()
        self.started: list[str] = []
        self.failed: Exception | None = None
        self.ledger = release.ledger / "ledger.txt"
        file = release.folder / f"load-{pool}.yaml"
        file.write_text(playbook(pool))
        code, _, err = release.ctl("register", str(file))
        assert code == 0, err

    def run(self) -> None:
        try:
            asyncio.run(self._work())
        except Exception as error:  # told to the test, which waits in another thread
            self.failed = error

    async def _work(self) -> None:
        settings = context.find(self._release.context_file, {})
        async with context.connected(settings) as bus:
            while not self._over.is_set():
                asked = Request(f"k8s/load-{self._pool}", payload={"ledger": str(self.ledger)})
                inbox = f"{inbox_prefix('admin')}.{uuid.uuid4().hex}"
                answer = await requests.start(bus, asked, inbox, settings.partitions)
                self.started.append(answer.execution_id)
                await asyncio.sleep(EVERY_S)

    def lines(self) -> Counter[tuple[str, str]]:
        """How often each step of each execution has been done."""
        rows = [line.split() for line in self.ledger.read_text().splitlines()] if self.ledger.exists() else []
        return Counter((row[1], row[2]) for row in rows)

    def stop(self) -> None:
        self._over.set()
        self.join(30)
        assert self.failed is None, self.failed


@contextmanager
def load(release: Release, pool: str = "default") -> Iterator[Load]:
    """While the body runs; then everything that was begun must end, and nothing was done twice."""
    running = Load(release, pool)
    running.start()
    try:
        wait_until(running.lines, "work is being done", 60.0, instead=lambda: (running.failed, release.state()))
        yield running
    finally:
        running.stop()
    wait_until(lambda: len(_of(running)), f"{len(running.started)} executions end", END_S,
               so=lambda found: found == STEPS * len(running.started),
               instead=lambda: (len(running.started), len(_of(running)), release.ctl("pool", "list")))
    twice = {step: count for step, count in _of(running).items() if count != 1}
    assert twice == {}, "done more than once"
    for execution in running.started:
        release.ctl.completed(execution)


def _of(load: Load) -> Counter[tuple[str, str]]:
    begun = set(load.started)
    return Counter({step: count for step, count in load.lines().items() if step[0] in begun})
