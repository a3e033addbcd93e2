"""The shell of a control service over one partition: follow, fold, decide, append, send, cursor.

One actor per execution. Inputs wait in its inbox; a turn folds all of them and decides once. A
writer waits for its own previous append of an execution before the next (the actor is busy), and
turns of different executions overlap freely. A refused or unanswered append throws the actor's
state away: it is loaded from the log again, and what is there decides.
A message is handled when its decision is in the log and what follows is sent; the cursor follows the
lowest unhandled one. What follows from time alone is decided when an alarm rings.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Generic

import structlog

from shared.bus import topology
from shared.bus.ports import Bus, Clock, Message
from shared.engine.large import Missing, shrink
from shared.errors import Conflict, Corrupt, NoetlError, Refused, Unavailable
from shared.events import subjects
from shared.events.record import Record, decode, encode
from shared.events.stamp import seconds, stamp
from shared.runtime import results
from shared.runtime.alarms import Alarms
from shared.runtime.core import Actor, Core, Entry, Outgoing, S
from shared.runtime.loading import Loader
from shared.runtime.plans import PlanMissing, Plans

log = structlog.get_logger()
BACKOFF_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
MAX_ACTORS = 20_000
SETTLE_S, SETTLE_TRIES = 0.05, 40
FRESH_S = 10.0  # an older record may have been handled by someone else, however new it is here
SNAPSHOT_EVERY = 500  # records folded into one execution
Send = Callable[[Sequence[Outgoing], Callable[[], None]], None]


class Shell(Generic[S]):
    """`send(messages, then)` publishes and calls `then` when the broker has them all."""

    def __init__(
        self, bus: Bus, clock: Clock, partition: int, core: Core[S], plans: Plans,
        send: Send,
    ) -> None:
        self.bus = bus
        self.clock = clock
        self.partition = partition
        self.core = core
        self.plans = plans
        self.send = send
        self.loader = Loader(bus, partition, core)
        self.snapshot_every = SNAPSHOT_EVERY
        self.stream = topology.events_stream(partition)
        self.actors: dict[str, Actor[S]] = {}
        self.horizon = 0  # what the log held when this shell began or lost sight: others may have handled that
        self.broken: BaseException | None = None
        self._connections = bus.connections
        self._open: dict[int, None] = {}
        self._seen = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._alarms = Alarms(clock, self._ring)

    # -- following ---------------------------------------------------------------------

    async def open(self, live: Sequence[str]) -> None:
        """Before following: what the cursor says is unfinished."""
        await self._look_at_horizon()
        for execution_id in live:
            self.load(execution_id)

    async def _look_at_horizon(self) -> None:
        self._connections = self.bus.connections
        while True:
            try:
                self.horizon = max(self.horizon, await self.bus.last_seq(self.stream))
                return
            except Unavailable as error:
                log.warning("stream.waits", stream=self.stream, error=str(error))
                await self.clock.sleep(BACKOFF_S[-1])

    async def run(self, after: int) -> None:
        """Follows the partition for ever; cancel to stop."""
        self._seen = max(self._seen, after)
        filters = [subjects.events_by(self.partition, writer) for writer in self.core.listens]
        follower = self.bus.follow(self.stream, filters, after)
        alarms = asyncio.create_task(self._alarms.run())
        alarms.add_done_callback(self._ended)
        try:
            while True:
                await self.take(await follower.batch())
        finally:
            alarms.cancel()
            await asyncio.wait({alarms})
            await follower.close()

    async def _ring(self, execution_id: str) -> None:
        actor = self.actors.get(execution_id)
        if actor is not None and actor.alarm and actor.alarm <= self.clock.now():
            actor.alarm = 0.0
            if not actor.busy:
                await self.turn(actor)

    async def take(self, batch: Sequence[Message]) -> None:
        touched: dict[str, Actor[S]] = {}
        if self.bus.connections != self._connections:
            await self._look_at_horizon()
        oldest = stamp(self.clock.now() - FRESH_S)
        for message in batch:
            self._seen = message.seq
            record = await self._decoded(message)
            if record is None:
                continue
            if record.ts < oldest:
                self.horizon = max(self.horizon, message.seq)
            actor = self.actors.get(record.execution_id)
            if actor is None:
                actor = self._new_actor(record)
            actor.inbox.append((message.seq, record))
            self._open[message.seq] = None
            touched[record.execution_id] = actor
        for actor in touched.values():
            if not actor.busy:
                await self.turn(actor)

    async def _decoded(self, message: Message) -> Record | None:
        try:
            return decode(message.data)
        except Corrupt as error:
            log.error("record.corrupt", stream=self.stream, seq=message.seq, error=str(error))
            headers = {"Noetl-Place": f"{self.stream}/{message.seq}"}
            await self.bus.append(subjects.dead(self.core.writer), message.data, headers=headers)
            return None

    def _new_actor(self, record: Record) -> Actor[S]:
        state = self.core.empty(record.execution_id) if self.core.first(record) else None
        actor = self.actors[record.execution_id] = Actor(record.execution_id, state)
        if len(self.actors) > MAX_ACTORS:
            self._evict()
        return actor

    def _evict(self) -> None:
        for key, actor in list(self.actors.items()):
            if actor.busy or actor.inbox or actor.state is None or self.core.keep(actor.state):
                continue
            del self.actors[key]
            if len(self.actors) <= MAX_ACTORS * 9 // 10:
                return

    def adopt(self, execution_id: str, state: S) -> None:
        """A state this process just wrote, so that its first report finds it in memory."""
        if execution_id not in self.actors:
            self.actors[execution_id] = Actor(execution_id, state)

    def load(self, execution_id: str) -> None:
        """Brings an execution into memory, and its messages out."""
        if execution_id not in self.actors:
            actor = self.actors[execution_id] = Actor[S](execution_id)
            self._prepare_soon(actor)

    def reload(self, actor: Actor[S]) -> None:
        if not actor.busy:
            actor.state = None
            self._prepare_soon(actor)

    # -- one turn ----------------------------------------------------------------------

    async def turn(self, actor: Actor[S]) -> None:
        """Folds the inbox and decides; never waits for the broker's answer."""
        if actor.state is None:
            return self._prepare_soon(actor)
        news = actor.news()
        if news and self.core.stale(actor.state, news):
            actor.state = None
            return self._prepare_soon(actor)
        try:
            state = self.core.fold(actor.state, news) if news else actor.state
            messages = self.core.outgoing(state, news, actor.values, self.horizon)
            ts = stamp(self.clock.now())
            events = self.core.decide(state, seconds(ts), actor.values)  # as anyone can re-derive it
        except (Missing, PlanMissing):
            return self._prepare_soon(actor)
        events, blobs = shrink(actor.execution_id, events)
        if not blobs.keys() <= actor.stored:
            return self._prepare_soon(actor, blobs)
        if actor.due:
            messages, actor.due = actor.due + messages, []
        taken = actor.carried + [seq for seq, _ in actor.inbox]
        actor.carried, actor.inbox, actor.state = [], [], state
        actor.folded += len(taken)
        if not events:
            return self._settle(actor, messages, taken)
        actor.busy = True
        record = Record(actor.execution_id, self.core.writer, state.n + 1, ts, tuple(events), state.as_of)
        subject = subjects.event(self.partition, actor.execution_id, self.core.writer)
        try:
            future = await self.bus.send(subject, encode(record), expected=state.seq)
        except Refused as error:
            return self._quarantine(actor, taken, error)
        except Unavailable:
            return self._failed(actor, taken)
        future.add_done_callback(partial(self._stored, actor, record, messages, taken))
        return None

    def _stored(
        self, actor: Actor[S], record: Record, messages: list[Outgoing], taken: list[int],
        future: "asyncio.Future[int]",
    ) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if isinstance(error, Refused):
            self._quarantine(actor, taken, error)
            return
        if error is not None:
            if isinstance(error, Conflict):
                log.info("append.conflict", execution_id=actor.execution_id, writer=self.core.writer)
            self._failed(actor, taken)
            return
        assert actor.state is not None
        own = [(future.result(), record)]
        actor.state = self.core.fold(actor.state, own)
        try:
            messages = messages + self.core.outgoing(actor.state, own, actor.values, self.horizon)
        except (Missing, PlanMissing):
            self._start(self._complete(actor, own, messages, taken))
            return
        self._go_on(actor, messages, taken)

    async def _complete(
        self, actor: Actor[S], own: Sequence[Entry], messages: list[Outgoing], taken: list[int]
    ) -> None:
        """The messages of a record that speaks of stored values, which are fetched first. If that takes long or
        the connection was lost, the log is asked who has handled the record by now."""
        began, connections, found = self.clock.now(), self.bus.connections, list[Outgoing]()
        state = actor.state
        assert state is not None
        try:
            await self._bring(actor, lambda: found.extend(self.core.outgoing(state, own, actor.values, self.horizon)))
        except NoetlError:
            return self._failed(actor, taken)
        if self.clock.now() - began > FRESH_S / 2 or self.bus.connections != connections:
            return self._failed(actor, taken)
        return self._go_on(actor, messages + found, taken)

    def _go_on(self, actor: Actor[S], messages: list[Outgoing], taken: list[int]) -> None:
        actor.busy = False
        self._settle(actor, messages, taken)
        if actor.inbox:
            self._start(self._turn_if_free(actor))

    async def _turn_if_free(self, actor: Actor[S]) -> None:
        """A batch may have taken the turn meanwhile; two at once would decide the same twice."""
        if actor.inbox and not actor.busy:
            await self.turn(actor)

    def _settle(self, actor: Actor[S], messages: list[Outgoing], taken: list[int]) -> None:
        if messages:
            self.send(messages, partial(self._handled, taken))
        else:
            self._handled(taken)
        if actor.state is None or actor.inbox:
            return
        due = self.core.due(actor.state)
        if due is not None and due != actor.alarm:
            actor.alarm = due
            self._alarms.set(due, actor.execution_id)
        if self.core.over(actor.state):
            self.actors.pop(actor.execution_id, None)
            if actor.saved:
                self._start(self.loader.snapshots.drop(actor.execution_id))
        elif actor.folded >= self.snapshot_every * self.loader.snapshots.weight(actor.execution_id):
            actor.folded, actor.saved = 0, True
            self._start(self.loader.snapshots.put(actor.execution_id, actor.state))

    def _handled(self, taken: list[int]) -> None:
        for seq in taken:
            self._open.pop(seq, None)

    def _quarantine(self, actor: Actor[S], taken: list[int], error: NoetlError) -> None:
        """One execution that cannot go on must not stop the others: it stays busy, for people to see."""
        log.error("execution.quarantined", execution_id=actor.execution_id, error=str(error))
        actor.busy = True
        self._handled(taken)

    def _failed(self, actor: Actor[S], taken: list[int]) -> None:
        """Nothing is known any more: the log decides."""
        actor.state = None
        actor.carried += taken
        self._prepare_soon(actor)

    # -- preparing ---------------------------------------------------------------------

    def _prepare_soon(self, actor: Actor[S], blobs: dict[str, bytes] | None = None) -> None:
        actor.busy = True
        self._start(self._prepare(actor, blobs or {}))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        if self._stopping:
            work.close()
            return
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.broken = error

    async def _prepare(self, actor: Actor[S], blobs: dict[str, bytes]) -> None:
        """Brings what a turn lacked: the state, plans, stored values; then takes the turn."""
        tries = 0
        while True:
            try:
                await results.store(self.bus, actor.execution_id, blobs)
                actor.stored.update(blobs)
                if actor.state is None:
                    await self._load(actor)
                await self._bring(actor, lambda: self._rehearse(actor))
                break
            except (Corrupt, Refused) as error:
                self._quarantine(actor, actor.carried + [seq for seq, _ in actor.inbox], error)
                return
            except NoetlError as error:
                pause = BACKOFF_S[min(tries, len(BACKOFF_S) - 1)]
                log.warning("execution.waits", execution_id=actor.execution_id, error=str(error), pause=pause)
                tries += 1
                await self.clock.sleep(pause)
        actor.busy = False
        await self.turn(actor)

    async def _load(self, actor: Actor[S]) -> None:
        state, actor.saved = await self.loader.load(actor.execution_id)
        if state.as_of < max([*actor.carried, *(seq for seq, _ in actor.inbox)], default=0):
            raise Unavailable("the log does not show what was delivered from it yet")  # a replica that lags

        def recover() -> None:
            actor.due = self.core.recover(state, actor.values)

        await self._bring(actor, recover)
        actor.state = state

    def _rehearse(self, actor: Actor[S]) -> None:
        assert actor.state is not None
        news = actor.news()
        state = self.core.fold(actor.state, news) if news else actor.state
        self.core.outgoing(state, news, actor.values, self.horizon)
        self.core.decide(state, self.clock.now(), actor.values)

    async def _bring(self, actor: Actor[S], work: Callable[[], None]) -> None:
        """Runs the work, fetching what it misses, until it goes through."""
        while True:
            try:
                return work()
            except Missing as missing:
                actor.values[missing.ref.checksum] = await results.load(self.bus, missing.ref)
            except PlanMissing as missing:
                await self.plans.load(missing.digest)

    # -- the cursor --------------------------------------------------------------------

    @property
    def cursor(self) -> int:
        """Everything up to here is handled."""
        return next(iter(self._open), self._seen + 1) - 1

    def live(self) -> list[str]:
        """The executions that a successor must load."""
        return sorted(
            key for key, actor in self.actors.items() if actor.state is None or self.core.keep(actor.state)
        )

    async def settled(self) -> None:
        """Waits, not for long, until the turns under way are in the log."""
        for _ in range(SETTLE_TRIES):
            if not self._open and not self._tasks:
                return
            await self.clock.sleep(SETTLE_S)

    async def stop(self) -> None:
        self._stopping = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
