"""Why many executions do not go on: what each waits for, and which of them wait for the same."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from services.cli.console import times
from services.cli.why.questions import Asker
from services.cli.why.world import Around
from shared.answers.why.facts import Answer, Pool, Reason, Worker
from shared.bus.jetstream import JetStreamBus
from shared.runtime.stores.plans import Plans

AT_ONCE = 8
STILL_S = 60.0  # what goes away by itself counts as standing still after this time
Ask = Callable[[str], Awaitable[Answer | None]]
_FIRST = {"nothing": 0, "someone": 1, "itself": 2}  # what nobody or only someone can mend comes before what passes
_KINDS = {"blocked": 0, "denied": 1, "running": 2, "note": 3}


class Standing(NamedTuple):
    """An execution, the reason that counts most, since when that is so, and when something of it began to run last."""

    answer: Answer
    reason: Reason
    since: datetime | None
    moved: datetime | None = None


class Group(NamedTuple):
    """Executions that wait for the same; the one that has waited longest comes first."""

    cause: str
    standing: Sequence[Standing]

    @property
    def first(self) -> Standing:
        return self.standing[0]


def standing(answer: Answer) -> Standing | None:
    """None: it is over by now, or nothing is known to hold it."""
    reasons = [reason for reason in answer.reasons if reason.kind in _KINDS]
    if not reasons or any(reason.kind == "over" for reason in answer.reasons):
        return None
    main = min(reasons, key=lambda reason: (_KINDS[reason.kind], _FIRST[reason.mover]))
    since = main.since or answer.started
    begun = [times.parsed(reason.since) for reason in reasons if reason.kind == "running" and reason.since]
    return Standing(answer, main, times.parsed(since) if since else None, max(begun, default=None))


def is_still(one: Standing, now: datetime, still_s: float) -> bool:
    """It stands still when only someone can move it, or when it has been so for some time and nothing of it has begun
    since."""
    if one.reason.kind != "running" and one.reason.mover != "itself":
        return True
    latest = max((at for at in (one.since, one.moved) if at is not None), default=None)
    return latest is not None and (now - latest).total_seconds() >= still_s


def grouped(found: Iterable[Standing]) -> list[Group]:
    """By cause, and of a signal by its name: what nobody or only someone can mend first, then by how many wait for
    it."""
    causes: dict[tuple[str, Any], list[Standing]] = {}
    for one in sorted(found, key=age):
        causes.setdefault((one.reason.cause, one.reason.values.get("signal")), []).append(one)
    groups = [Group(cause, waiting) for (cause, _), waiting in causes.items()]
    return sorted(groups, key=lambda group: (
        _KINDS[group.first.reason.kind], _FIRST[group.first.reason.mover], -len(group.standing), group.cause))


def age(one: Standing) -> tuple[float, str]:
    return (one.since.timestamp() if one.since is not None else float("inf"), one.answer.execution_id)


async def ask_all(bus: JetStreamBus, partitions: int, executions: Sequence[str], refusal: str = "") -> list[Answer]:
    ask, turns = look(bus, partitions, refusal), asyncio.Semaphore(AT_ONCE)

    async def one(execution_id: str) -> Answer | None:
        async with turns:
            return await ask(execution_id)

    return [each for each in await asyncio.gather(*map(one, executions)) if each is not None]


class _Remembered(Around):
    """What is the same for many executions is asked for once."""

    def __init__(self, bus: JetStreamBus, partitions: int) -> None:
        super().__init__(bus, partitions)
        self._pools: dict[str, Pool] = {}
        self._orders: dict[str, dict[str, int]] = {}
        self._workers: tuple[Worker, ...] | None = None

    async def pool(self, name: str) -> Pool:
        if name not in self._pools:
            self._pools[name] = await super().pool(name)
        return self._pools[name]

    async def workers(self) -> tuple[Worker, ...]:
        if self._workers is None:
            self._workers = await super().workers()
        return self._workers

    async def _order(self, pool: Pool) -> dict[str, int]:
        if pool.name not in self._orders:
            self._orders[pool.name] = await super()._order(pool)
        return self._orders[pool.name]


def look(bus: JetStreamBus, partitions: int, refusal: str = "") -> Ask:
    """Someone to ask about many, who remembers what is around for as long as one look takes."""
    around, plans = _Remembered(bus, partitions), Plans(bus)
    return lambda execution_id: Asker(bus, partitions, around, refusal=refusal, plans=plans).answer(execution_id)
