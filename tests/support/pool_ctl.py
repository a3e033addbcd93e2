"""noetlctl against a running stack, with a playbook that keeps a ledger of what its iterations do."""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, Protocol

import structlog

from services.cli.console.exits import NOT_FOUND, OK
from services.cli.main import exit_code
from shared.bus import topology
from shared.bus.jetstream import JetStreamBus, connect
from shared.runtime.service import logging
from tests.support.cli import Up
from tests.support.waiting import wait_until

LEASE_S = 6.0  # over the 5 s after which a worker extends its leases
WORK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: {name}, path: pools/{name}}}
workload: {{ledger: "", count: 1, nap: 0.1, in_flight: 100}}
workflow:
  - step: start
    spec: {{{where}}}
    loop: {{in: "{{{{ range(workload.count) | list }}}}", iterator: number,
           spec: {{mode: parallel, max_in_flight: "{{{{ workload.in_flight }}}}"}}}}
    tool:
      - name: begin
        kind: shell
        cmds: ['echo "begin {{{{ execution_id }}}} {{{{ iter.number }}}}" >> "{{{{ workload.ledger }}}}"']
      - name: work
        kind: shell
        cmds:
          - sleep "{{{{ workload.nap }}}}"
          - echo "end {{{{ execution_id }}}} {{{{ iter.number }}}}" >> "{{{{ workload.ledger }}}}"
"""
Done = tuple[int, str, str]


class Stack(Protocol):
    """What noetlctl is to talk to: an embedded stack, or a release of the chart."""

    folder: Path
    context_file: Path

    @property
    def context(self) -> dict[str, Any]: ...


class Ctl:
    """noetlctl in this process: a start of Python for each call would take most of the time."""

    def __init__(self, up: Stack) -> None:
        self.up, self.folder = up, up.folder
        self.ledger = up.folder / "ledger.txt"

    def __call__(self, *args: str) -> Done:
        out, err = StringIO(), StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = exit_code([*args, "--context", str(self.up.context_file)])
        return code, out.getvalue(), err.getvalue()

    def json(self, *args: str) -> Any:
        code, out, err = self(*args, "-o", "json")
        assert code == 0, (args, err)
        return json.loads(out)

    def pool(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.json("pool", "describe", name)
        return found

    def apply(self, name: str, **spec: object) -> None:
        code, _, err = self("pool", "apply", "-f", str(self.document(name, **spec)))
        assert code == 0, err

    def document(self, name: str, **spec: object) -> Path:
        file = self.folder / f"{name}.yaml"
        head = {"apiVersion": "noetl.io/v2", "kind": "Pool", "metadata": {"name": name}}
        file.write_text(json.dumps({**head, "spec": spec}))
        return file

    def start(self, pool: str, count: int = 1, nap: float = 0.1, where: str = "") -> str:
        """An execution whose every iteration says when it begins and ends its work."""
        file = self.folder / f"work-{pool}.yaml"
        file.write_text(WORK.format(name=f"work-{pool}", where=where or f"pool: {pool}"))
        assert self("register", str(file))[0] == 0
        payload = json.dumps({"ledger": str(self.ledger), "count": count, "nap": nap})
        code, out, err = self("execute", f"pools/work-{pool}", "--payload", payload)
        assert code == 0, err
        return out.strip()

    def said(self, execution: str, word: str) -> Counter[str]:
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        rows = [line.split() for line in lines]
        return Counter(row[2] for row in rows if row[:2] == [word, execution])

    def status(self, execution: str) -> str:
        """None of its own before a router has begun with it."""
        code, out, err = self("get", execution, "-o", "json")
        assert code in (OK, NOT_FOUND), err
        return str(json.loads(out)["status"]) if code == OK else ""

    def rest(self, pool: str) -> None:
        """Nobody needs its workers any more."""
        assert self("pool", "scale", pool, "0", "--no-wait")[0] == 0

    def completed(self, execution: str) -> None:
        wait_until(lambda: self.status(execution), f"{execution} completed", so=lambda found: found == "completed")


@asynccontextmanager
async def connected(ctl: Ctl) -> AsyncIterator[JetStreamBus]:
    """As the administrator."""
    context = ctl.up.context
    bus = await connect(context["nats_url"], user="admin", password=context["users"]["admin"])
    try:
        yield bus
    finally:
        await bus.close()


def on_broker(ctl: Ctl, work: Callable[[JetStreamBus], Awaitable[None]]) -> None:
    async def run() -> None:
        async with connected(ctl) as bus:
            await work(bus)

    asyncio.run(run())


def shorten_lease(ctl: Ctl, pool: str) -> None:
    async def work(bus: JetStreamBus) -> None:
        found = (await bus.requests.api(f"CONSUMER.INFO.{topology.COMMANDS}.{pool}"))["config"]
        config = {**found, "ack_wait": int(LEASE_S * 1e9)}
        body = {"stream_name": topology.COMMANDS, "config": config, "action": "update"}
        await bus.requests.api(f"CONSUMER.CREATE.{topology.COMMANDS}.{pool}", body)

    on_broker(ctl, work)


@contextmanager
def stack_in(folder: Path) -> Iterator[Ctl]:
    """A stack of its own; what this process logs does not go where a test reads."""
    logging.configure("error", sys.__stderr__)
    stack = Up(folder)
    try:
        stack.wait()
        yield Ctl(stack)
    finally:
        stack.stop()
        structlog.reset_defaults()
