"""What a playbook needs of its stack before its first step: the playbooks that it names, pools for its steps, and its
credentials. An execution that lacks one would fail in the middle of its work, or wait for a pool that never comes.

Routers do not read the keychain. That there is something under a name the broker tells without the value; whether the
value can be used, the worker says (ADR 35).
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import structlog
from msgspec import Struct

from shared.bus import topology
from shared.bus.ports import Bus
from shared.dsl.model.edition import plan_name
from shared.dsl.model.plan import Plan, Task
from shared.dsl.templates.evaluate import is_template
from shared.errors import Corrupt, Refused
from shared.events import failure
from shared.runtime.stores import catalog, credentials, pools
from shared.runtime.stores.plans import Plans

log = structlog.get_logger()
MAX_KNOWN = 1000  # plans whose needs are kept at hand
PLAYBOOK = "playbook"


class Needs(Struct, frozen=True):
    """Literal names alone: what a template makes of one is known later. Each with who needs it."""

    playbooks: Mapping[tuple[str, str, str], str] = {}  # path, version, the step whose result is wanted
    pools: Mapping[str, str] = {}
    credentials: Mapping[str, str] = {}


NOTHING = Needs()


class Unready(Struct, frozen=True):
    """Why no step can begin; `kind` is that of the error."""

    kind: str
    message: str


class Readiness:
    """`given` are the pools without a document. What was found is kept for a batch: call `forget` before the next."""

    def __init__(self, bus: Bus, given: Collection[str]) -> None:
        self._bus, self._given, self._plans = bus, frozenset(given), Plans(bus)
        self._needs: dict[str, Needs] = {}
        self._found: dict[tuple[str, ...], str] = {}
        self._documents: Mapping[str, pools.Entry] | None = None

    def forget(self) -> None:
        self._found, self._documents = {}, None

    async def unready(self, plan: Plan) -> Unready | None:
        needs = self._of(plan)
        if needs is NOTHING:
            return None
        for called, who in needs.playbooks.items():
            if reason := await self._once(("playbook", *called), self._playbook, *called):
                return Unready(failure.PLAYBOOK, f"{who} calls a playbook that is not there: {reason}")
        for pool, who in needs.pools.items():
            if reason := await self._once(("pool", pool), self._pool, pool):
                return Unready(failure.POOL, f"{who} cannot run: {reason}")
        for stored, name in needs.credentials.items():
            if reason := await self._once(("credential", stored), self._credential, stored):
                return Unready(failure.AUTH, f"keychain.{name}: {reason}")
        return None

    def _of(self, plan: Plan) -> Needs:
        found = self._needs.get(plan.digest)
        if found is None:
            if len(self._needs) >= MAX_KNOWN:
                self._needs.clear()
            found = self._needs[plan.digest] = needs_of(plan, self._given)
        return found

    async def _once(self, key: tuple[str, ...], look: Any, *names: str) -> str:
        if key not in self._found:
            self._found[key] = await look(*names)
        return self._found[key]

    async def _playbook(self, path: str, version: str, returns: str) -> str:
        try:
            entry = await catalog.find(self._bus, path, version)
            steps = (await self._plans.load(plan_name(entry.digest))).steps if returns else {}
        except (catalog.NotRegistered, Corrupt) as error:
            return str(error)
        return f"{path} has no step {returns!r}, which return_step names" if returns and returns not in steps else ""

    async def _pool(self, pool: str) -> str:
        if self._documents is None:
            self._documents = await pools.everything(self._bus)
        if pool in self._documents:
            return f"pool {pool} is being deleted" if self._documents[pool].deleting else ""
        try:
            if await self._bus.consumer(topology.COMMANDS, pool) is not None:
                return ""
        except Refused as error:  # the broker's configuration is older than this router
            log.warning("readiness.pools", error=str(error))
            return ""
        there = ", ".join(sorted({*self._documents, *self._given}))
        return f"there is no pool {pool} (pools: {there}; noetlctl pool create {pool} --workers 1)"

    async def _credential(self, stored: str) -> str:
        try:
            if credentials.NAME.fullmatch(stored) and await self._bus.kv_is_named(topology.KEYCHAIN, stored):
                return ""
        except Refused as error:
            log.warning("readiness.keychain", error=str(error))
            return ""
        return f"no credential {stored[:60]!r} in the keychain (noetlctl credential {stored[:60]}=JSON)"


def needs_of(plan: Plan, given: Collection[str]) -> Needs:
    """Without the pools that are given."""
    playbooks: dict[tuple[str, str, str], str] = {}
    wanted: dict[str, str] = {}
    for step in plan.steps.values():
        if step.tasks and not step.requires and step.pool not in given:
            wanted.setdefault(step.pool, f"step {step.name}")
        for task in step.tasks:
            for name in _called(task):
                playbooks.setdefault(name, f"step {step.name}")
    stored = {str(entry.get("credential") or entry["name"]): str(entry["name"]) for entry in plan.keychain}
    declared = {name: entry for name, entry in stored.items() if not is_template(name)}
    return Needs(playbooks, wanted, declared) if playbooks or wanted or declared else NOTHING


def _called(task: Task) -> Iterator[tuple[str, str, str]]:
    path, version = task.config.get("path"), task.config.get("version", "")
    returns = task.config.get("return_step", "")
    if task.kind == PLAYBOOK and isinstance(path, str) and not is_template(path):
        literal = isinstance(version, str | int | float) and not is_template(str(version))
        wanted = returns if literal and isinstance(returns, str) and not is_template(returns) else ""
        yield path, str(version) if literal else "", wanted if task.config.get("mode") != "detached" else ""
