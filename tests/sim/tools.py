"""Tools that do what their `args` say, in virtual time, and a ledger of every call."""

import random
from contextvars import ContextVar
from typing import Any, NamedTuple

from shared.events.outcome import Outcome, failed, ok
from shared.events.record import Epoch
from shared.tools.contract import Call, Tool, ToolOptions
from shared.tools.open import Tools
from tests.sim.network import Client

LEASE: ContextVar[Epoch] = ContextVar("LEASE", default=(0, 0))


class Entry(NamedTuple):
    """A tool was called, under which lease, with which key."""

    at: float
    worker: str
    epoch: Epoch
    key: str


class FakeTools(Tools):
    def __init__(self, client: Client, ledger: list[Entry], rng: random.Random) -> None:
        super().__init__(ToolOptions())
        self._tool = FakeTool(client, ledger, rng)

    def get(self, kind: str) -> Tool:
        if kind in ("playbook", "wait"):
            return super().get(kind)
        self._tool.kind = kind
        return self._tool


class FakeTool:
    def __init__(self, client: Client, ledger: list[Entry], rng: random.Random) -> None:
        self._client, self._ledger, self._rng = client, ledger, rng
        self.kind = ""

    async def run(self, call: Call) -> Outcome:
        if "params" not in call.config and "code" not in call.config:
            return ok(call.config.get("args"))
        client = self._client
        await client.awake()
        self._ledger.append(Entry(client.clock.now(), client.name, LEASE.get(), call.idempotency_key))
        args: dict[str, Any] = call.config.get("args") or {}
        await client.clock.sleep(args.get("takes", 0.002) * self._rng.uniform(0.7, 1.3))
        return _page(call) if "params" in call.config else _answer(args, call.idempotency_key)

    async def close(self) -> None:
        """Nothing to release."""


def _answer(args: dict[str, Any], key: str) -> Outcome:
    if args.get("breaks"):
        return failed("broken", "it always breaks")
    if int(key.rpartition("/")[2]) <= args.get("fails", 0):
        return failed("flaky", "it does not work yet", retryable=True)
    if "size" in args:
        return ok(["x" * 7] * (args["size"] // 10))
    return ok(args.get("give"))


def _page(call: Call) -> Outcome:
    page, pages = call.config["params"]["page"], call.config["params"]["pages"]
    if int(call.idempotency_key.rpartition("/")[2]) % 5 == 3:
        return failed("connect", "the line is busy", retryable=True, http={"status": 503})
    data = {"item": f"item {page}", "more": page < pages}
    return ok({"status_code": 200, "headers": {}, "data": data}, shape="http", http={"status": 200})
