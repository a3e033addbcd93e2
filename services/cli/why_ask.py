"""Asks why an execution is not running: its log first, then what the log makes a question, then the executions that
it waits for."""

import time

from services.cli import why_request
from services.cli.logbook import Entry, Logbook
from services.cli.why_around import Around
from shared.bus import topology
from shared.bus.jetstream import JetStreamBus
from shared.engine import why, why_limits, why_waits
from shared.engine.routing import MAX_DEPTH
from shared.engine.summary import Summary
from shared.engine.why_facts import Answer, Reason, World
from shared.engine.why_view import Broken, View, viewed
from shared.errors import Corrupt
from shared.events import subjects
from shared.events.record import decode
from shared.runtime import catalog
from shared.runtime.plans import Plans

MAX_ANSWERS = 50  # executions that one answer is about


class Asker:
    def __init__(self, bus: JetStreamBus, partitions: int) -> None:
        self._bus, self._partitions = bus, partitions
        self._around = Around(bus, partitions)
        self._plans = Plans(bus)
        self._asked: set[str] = set()

    async def answer(self, execution_id: str, depth: int = 0) -> Answer | None:
        """None: nobody has heard of it."""
        self._asked.add(execution_id)
        entries, broken = await self._read(execution_id)
        if not entries and broken is None:
            return await why_request.explained(self._bus, self._around, execution_id)
        book = Logbook(self._bus, execution_id, entries, self._plans)
        if broken is not None:
            return _unreadable(book, broken)
        try:
            view = await book.ask(lambda: viewed(execution_id, entries, book.plans, book.values))
            return await self._explained(book, view, depth)
        except Broken as error:
            return _unreadable(book, error)
        except catalog.NotRegistered as error:
            return _without_source(book, str(error))

    async def _read(self, execution_id: str) -> tuple[list[Entry], Broken | None]:
        """The records up to the first that cannot be read."""
        partition = subjects.partition_of(execution_id, self._partitions)
        stream, subject = topology.events_stream(partition), subjects.events_of(partition, execution_id)
        entries: list[Entry] = []
        for message in await self._bus.read(stream, [subject]):
            try:
                entries.append((message.seq, decode(message.data)))
            except Corrupt as error:
                return entries, Broken(message.seq, str(error))
        return entries, None

    async def _explained(self, book: Logbook, view: View, depth: int) -> Answer:
        world = World(time.time())
        if view.times.get("ended") is None:
            world = await self._world(book, view, depth)
        return await book.ask(lambda: why.explain(view, world, book.plans, book.values))

    async def _world(self, book: Logbook, view: View, depth: int) -> World:
        names = await book.ask(lambda: why.pools(view, book.plans, book.values))
        wants = await book.ask(lambda: why_limits.wanted(view, book.plans, book.values))
        pools = {name: await self._around.pool(name) for name in names}
        world = World(
            time.time(),
            workers=await self._around.workers() if names else (),
            pools=pools,
            queued=await self._around.queued(view.execution_id, pools.values()),
            ledgers=await self._around.ledgers({want.limit.key for want in wants}),
        )
        doubts = await book.ask(lambda: why.in_doubt(view, world, book.plans, book.values))
        others = [*why_waits.children(view), *why_limits.followed(world.ledgers, wants, view.execution_id)]
        return World(
            world.now, world.workers, world.pools, world.queued, world.ledgers,
            await self._around.members(doubts) if doubts else None,
            await self._around.cursors(view.execution_id) if doubts else {},
            await self._others(others, depth + 1),
        )

    async def _others(self, wanted: list[str], depth: int) -> dict[str, Answer]:
        found: dict[str, Answer] = {}
        for execution_id in wanted:
            if execution_id not in self._asked and depth <= MAX_DEPTH and len(self._asked) < MAX_ANSWERS:
                answer = await self.answer(execution_id, depth)
                if answer is not None:
                    found[execution_id] = answer
        return found


def _summary(book: Logbook) -> Summary:
    summary = Summary(book.execution_id)
    for record in book.records:
        summary.apply(record)
    return summary


def _unreadable(book: Logbook, error: Broken) -> Answer:
    summary = _summary(book)
    text = f"its log cannot be read from record {error.seq} on: {error.reason}; no service goes on with it"
    reason = Reason(
        "log.corrupt", "blocked", text, values={"record": error.seq, "read": len(book.entries)},
        remedy=f"noetlctl dlq list shows what was set aside; start it anew: noetlctl execute {summary.path}",
    )
    last = book.entries[-1][0] if book.entries else 0
    return Answer(book.execution_id, summary.status, (reason,), summary.path, summary.started, last)


def _without_source(book: Logbook, error: str) -> Answer:
    summary = _summary(book)
    reason = Reason("playbook.gone", "blocked", f"its playbook is not in the catalogue any more: {error}",
                    values={"digest": summary.digest}, remedy="noetlctl register FILE, with the very same source")
    return Answer(book.execution_id, summary.status, (reason,), summary.path, summary.started, book.entries[-1][0])
