"""Tools that do what their `args` say, in virtual time, and a ledger of every call."""

import asyncio
import random
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

from shared.events.outcome import Outcome, failed, ok
from shared.events.record import Epoch
from shared.tools.base.contract import Call, Keep, Tool, ToolOptions
from shared.tools.toolbox import Tools
from tests.sim.clients import Client

LEASE: ContextVar[Epoch] = ContextVar("LEASE", default=(0, 0))


class Entry(NamedTuple):
    """A tool was called, under which lease, with which key; `ends` is how far each partition of the log was by then,
    which no clock can say. `asked`: with what, of a call with an effect."""

    at: float
    worker: str
    epoch: Epoch
    key: str
    ends: tuple[int, ...]
    asked: str


Ends = Callable[[], tuple[int, ...]]


class Table:
    """The rows of each execution: numbers, claimed for good or locked by a client that is still there. The locks of
    one that died are gone, as those of a connection that was cut."""

    def __init__(self) -> None:
        self.taken: dict[str, set[int]] = {}
        self._locks: dict[tuple[str, int], object] = {}
        self._owners: dict[object, Client] = {}

    def lock(self, key: str, count: int, most: int, client: Client) -> tuple[object, list[int]]:
        taken, mine = self.taken.setdefault(key, set()), object()
        free = [row for row in range(count) if row not in taken and not self._is_locked(key, row)][:most]
        self._owners[mine] = client
        self._locks |= {(key, row): mine for row in free}
        return mine, free

    def locked(self, key: str) -> list[Client]:
        """Who holds its rows."""
        owners = [self._owners.get(lock) for (at, _), lock in self._locks.items() if at == key]
        return [owner for owner in owners if owner is not None and not owner.dead]

    def _is_locked(self, key: str, row: int) -> bool:
        owner = self._owners.get(self._locks.get((key, row)))
        return owner is not None and not owner.dead

    def end(self, key: str, lock: object, rows: list[int], *, commit: bool) -> None:
        if commit and not self._owners[lock].dead:
            self.taken[key] |= set(rows)
        del self._owners[lock]


class FakeTools(Tools):
    def __init__(self, client: Client, ledger: list[Entry], rng: random.Random, table: Table, ends: Ends) -> None:
        super().__init__(ToolOptions())
        self._tool = FakeTool(client, ledger, rng, table, ends)

    def get(self, kind: str) -> Tool:
        if kind in ("playbook", "wait"):
            return super().get(kind)
        self._tool.kind = kind
        return self._tool


class FakeTool:
    def __init__(self, client: Client, ledger: list[Entry], rng: random.Random, table: Table, ends: Ends) -> None:
        self._client, self._ledger, self._rng, self._table, self._ends = client, ledger, rng, table, ends
        self.kind = ""

    async def claim(self, call: Call, keep: Keep) -> Outcome:
        """The parameters of the statement are how many rows there are, and how many to claim."""
        client, key = self._client, call.idempotency_key.partition("/")[0]
        await client.awake()
        count, most = call.config["command"].params
        lock, rows = self._table.lock(key, count, most, client)
        found = [{"k": row} for row in rows]
        wanted = False
        try:
            await client.clock.sleep(0.05 * self._rng.uniform(0.7, 1.3))
            wanted = await keep(ok({"rows": found, "columns": ["k"], "row_count": len(rows)}, shape="sql"))
            await client.clock.sleep(0.01)
        except asyncio.CancelledError:
            wanted = False
            raise
        finally:
            self._table.end(key, lock, rows, commit=wanted)
        return ok()

    async def run(self, call: Call) -> Outcome:
        if "params" not in call.config and "code" not in call.config:
            return ok(call.config.get("args"))
        client = self._client
        await client.awake()
        asked = "" if "params" in call.config else repr(call.config)
        self._ledger.append(
            Entry(client.clock.now(), client.name, LEASE.get(), call.idempotency_key, self._ends(), asked))
        args: dict[str, Any] = call.config.get("args") or {}
        await client.clock.sleep(args.get("takes", 0.002) * self._rng.uniform(0.7, 1.3))
        return page(call, len(self._ledger)) if "params" in call.config else answer(args, call.idempotency_key)

    async def close(self) -> None:
        """Nothing to release."""


def answer(args: dict[str, Any], key: str) -> Outcome:
    if args.get("breaks"):
        return failed("broken", "it always breaks")
    if int(key.rpartition("/")[2]) <= args.get("fails", 0):
        return failed("flaky", "it does not work yet", retryable=True)
    if "size" in args:
        return ok(["x" * 7] * (args["size"] // 10))
    return ok(args.get("give"))


def page(call: Call, read: int = 0) -> Outcome:
    """A page, or what is read at this moment: another thing each time."""
    if "now" in call.config["params"]:
        return ok({"status_code": 200, "headers": {}, "data": {"read": read}}, shape="http", http={"status": 200})
    page, pages = call.config["params"]["page"], call.config["params"]["pages"]
    if int(call.idempotency_key.rpartition("/")[2]) % 5 == 3:
        return failed("connect", "the line is busy", retryable=True, http={"status": 503})
    data = {"item": f"item {page}", "more": page < pages}
    return ok({"status_code": 200, "headers": {}, "data": data}, shape="http", http={"status": 200})
