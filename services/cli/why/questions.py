"""Asks why an execution is not running: its log first, then what the log makes a question, then the executions that
it waits for."""

from functools import partial

from msgspec.structs import replace

from services.cli.executions import set_aside
from services.cli.executions.failure_lines import located
from services.cli.executions.logbook import Entry, Logbook
from services.cli.why import unstarted
from services.cli.why.world import Around
from shared.answers.history.beginning import without_beginning
from shared.answers.history.summary import Summary
from shared.answers.why import explain as why
from shared.answers.why import limits as why_limits
from shared.answers.why import unwritable
from shared.answers.why import waits as why_waits
from shared.answers.why.facts import Answer, Reason, World
from shared.answers.why.remedies import remedy
from shared.answers.why.view import UNFIT, BrokenHistory, View, viewed
from shared.bus import topology
from shared.bus.jetstream import JetStreamBus
from shared.engine.routing.decide import MAX_DEPTH
from shared.errors import Corrupt, Forged
from shared.events import subjects
from shared.events.record import decode
from shared.runtime.control.set_aside import read as read_asides
from shared.runtime.stores import catalog
from shared.runtime.stores.plans import Plans

MAX_ANSWERS = 50  # executions that one answer is about
TRIES = 3  # for an execution that proceeds while it is looked at


class Asker:
    def __init__(
        self, bus: JetStreamBus, partitions: int, around: Around | None = None, *, refusal: str = "",
        plans: Plans | None = None,
    ) -> None:
        """`refusal`: why the broker accepts no writes."""
        self._bus, self._partitions, self._refusal = bus, partitions, refusal
        self._around = around or Around(bus, partitions)
        self._plans = plans or Plans(bus)
        self._asked: set[str] = set()

    async def answer(self, execution_id: str, depth: int = 0) -> Answer | None:
        """None: nobody has heard of it."""
        found = await self._answer(execution_id, depth)
        if found is None or any(reason.kind == "over" for reason in found.reasons):
            return found
        aside = set_aside.reasons(await read_asides(self._bus, execution_id), found.path)
        found = replace(found, reasons=(*aside, *found.reasons)) if aside else found
        return unwritable.explained(found, self._refusal, first=not depth) if self._refusal else found

    async def _answer(self, execution_id: str, depth: int) -> Answer | None:
        self._asked.add(execution_id)
        entries, broken = await self._read(execution_id)
        if not entries and broken is None:
            return await unstarted.explained(self._bus, self._around, execution_id)
        if (cut := without_beginning(entries)) is not None:
            return _unreadable(execution_id, entries, cut.seq, cut.message)
        if broken is None:
            try:
                return await self._explained(execution_id, entries, depth)
            except BrokenHistory as error:
                broken = error
            except UNFIT as error:
                broken = BrokenHistory(entries[-1][0], f"{type(error).__name__} {error}")
            except (catalog.NotRegistered, Corrupt) as error:
                view = viewed(execution_id, entries, None)
                return why.without_source(view, World(await self._bus.time()), str(error))
        return _unreadable(
            execution_id, entries, broken.seq, f"its log cannot be read from record {broken.seq} on: {broken.reason}")

    async def _read(self, execution_id: str) -> tuple[list[Entry], BrokenHistory | None]:
        """The records up to the first that cannot be read."""
        partition = subjects.partition_of(execution_id, self._partitions)
        stream, subject = topology.events_stream(partition), subjects.events_of(partition, execution_id)
        entries: list[Entry] = []
        for message in await self._bus.read(stream, [subject]):
            try:
                entries.append((message.seq, decode(message, self._partitions)))
            except Forged:
                continue
            except Corrupt as error:
                return entries, BrokenHistory(message.seq, str(error))
        return entries, None

    async def _explained(self, execution_id: str, entries: list[Entry], depth: int) -> Answer:
        """The log is read again if it grew while the broker was asked: the two have to match."""
        for left in reversed(range(TRIES)):
            book = Logbook(self._bus, execution_id, entries, self._plans)
            view = await book.ask(partial(viewed, execution_id, entries, book.plans, book.values))
            world = World(await self._bus.time())
            if view.times.get("ended") is not None:
                break
            world = await self._world(book, view)
            if not left or not await self._went_on(execution_id, view.last):
                world = await self._further(book, view, world, depth)
                break
            entries, broken = await self._read(execution_id)
            if broken is not None:
                raise broken
        answer = await book.ask(lambda: why.explain(view, world, book.plans, book.values))
        return await self._with_lines(answer, view)

    async def _with_lines(self, answer: Answer, view: View) -> Answer:
        """The tracebacks in it name lines of the playbook."""
        digest = view.plan.digest if view.plan is not None else ""
        reasons = []
        for reason in answer.reasons:
            failure = await located(self._bus, digest, reason.values.get("failure"))
            reasons.append(replace(reason, values={**reason.values, "failure": failure}) if failure else reason)
        return replace(answer, reasons=tuple(reasons))

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
            await self._bus.time(),
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
        members = await self._around.members(doubts) if doubts else None
        return replace(
            world, members=members, skews=dict(self._around.skews),
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


def _unreadable(execution_id: str, entries: list[Entry], seq: int, what: str) -> Answer:
    summary = Summary(execution_id)
    for _, record in entries:
        summary.apply(record)
    text = f"{what}; no service goes on with it"
    reason = Reason(
        "log.corrupt", "blocked", text, values={"record": seq, "read": len(entries)},
        remedy=remedy("start_anew", path=summary.path),
    )
    last = entries[-1][0] if entries else 0
    return Answer(execution_id, summary.status, (reason,), summary.path, started=summary.started, as_of=last)
