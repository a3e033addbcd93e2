"""Asks why an execution is not running: its log first, then what the log makes a question, then the executions that
it waits for."""

import time
from functools import partial

from msgspec.structs import replace

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
TRIES = 3  # at an execution that goes on while it is looked at


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
        if broken is None:
            try:
                return await self._explained(execution_id, entries, depth)
            except Broken as error:
                broken = error
            except (catalog.NotRegistered, Corrupt) as error:
                view = viewed(execution_id, entries, None)
                return why.without_source(view, World(time.time()), str(error))
        return _unreadable(execution_id, entries, broken)

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

    async def _explained(self, execution_id: str, entries: list[Entry], depth: int) -> Answer:
        """The log is read again if it went on while the broker was asked: the two have to fit."""
        for left in reversed(range(TRIES)):
            book = Logbook(self._bus, execution_id, entries, self._plans)
            view = await book.ask(partial(viewed, execution_id, entries, book.plans, book.values))
            world = World(time.time())
            if view.times.get("ended") is not None:
                break
            world = await self._world(book, view)
            if not left or not await self._went_on(execution_id, view.last):
                world = await self._further(book, view, world, depth)
                break
            entries, broken = await self._read(execution_id)
            if broken is not None:
                raise broken
        return await book.ask(lambda: why.explain(view, world, book.plans, book.values))

    async def _went_on(self, execution_id: str, last: int) -> bool:
        partition = subjects.partition_of(execution_id, self._partitions)
        stream, subject = topology.events_stream(partition), subjects.events_of(partition, execution_id)
        found = await self._bus.get(stream, subject)
        return found is not None and found.seq > last

    async def _world(self, book: Logbook, view: View) -> World:
        names = await book.ask(lambda: why.pools(view, book.plans, book.values))
        wants = await book.ask(lambda: why_limits.wanted(view, book.plans, book.values))
        pools = {name: await self._around.pool(name) for name in names}
        return World(
            time.time(),
            workers=await self._around.workers() if names else (),
            pools=pools,
            queued=await self._around.queued(view.execution_id, pools.values()),
            ledgers=await self._around.ledgers({want.limit.key for want in wants}),
        )

    async def _further(self, book: Logbook, view: View, world: World, depth: int) -> World:
        """The control services, if they are in doubt, and the executions that this one waits for."""
        wants = await book.ask(lambda: why_limits.wanted(view, book.plans, book.values))
        doubts = await book.ask(lambda: why.in_doubt(view, world, book.plans, book.values))
        others = [*why_waits.children(view), *why_limits.followed(world.ledgers, wants, view.execution_id)]
        return replace(
            world, members=await self._around.members(doubts) if doubts else None,
            cursors=await self._around.cursors(view.execution_id) if doubts else {},
            others=await self._others(others, depth + 1),
        )

    async def _others(self, wanted: list[str], depth: int) -> dict[str, Answer]:
        found: dict[str, Answer] = {}
        for execution_id in wanted:
            if execution_id not in self._asked and depth <= MAX_DEPTH and len(self._asked) < MAX_ANSWERS:
                answer = await self.answer(execution_id, depth)
                if answer is not None:
                    found[execution_id] = answer
        return found


def _unreadable(execution_id: str, entries: list[Entry], error: Broken) -> Answer:
    summary = Summary(execution_id)
    for _, record in entries:
        summary.apply(record)
    text = f"its log cannot be read from record {error.seq} on: {error.reason}; no service goes on with it"
    reason = Reason(
        "log.corrupt", "blocked", text, values={"record": error.seq, "read": len(entries)},
        remedy=f"noetlctl dlq list shows what was set aside; start it anew: noetlctl execute {summary.path}",
    )
    last = entries[-1][0] if entries else 0
    return Answer(execution_id, summary.status, (reason,), summary.path, started=summary.started, as_of=last)
