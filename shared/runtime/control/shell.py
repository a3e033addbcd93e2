"""The shell of a control service over one partition: follow, fold, decide, append, send, cursor.

Theory of operation. A core (`shared/engine/core.py`) says what follows from the log of one execution; the shell makes
it happen for all executions of a partition, with nothing in memory that could not be lost.

Follow. The shell reads, in log order, what the writers that its core listens to append. Each record waits in the inbox
of its execution's actor. Own records are not followed: the shell folds one when the broker has accepted it, or
takes the draft at which its decision arrived, where the core has one (`Drafting`).

A turn folds the whole inbox and decides once, as of the time that its record will bear, so that anyone can make the
decision again. An actor has one turn at a time (`busy`) and collects its next inbox meanwhile; turns of different
executions overlap freely. What a turn lacks is brought first (`preparation.py`): the state, plans, values stored beside
the log. It is the turn made then that is written. What follows from time alone is decided when an alarm rings.

Append. The record expects the last sequence of its subject that the state knows. That is the whole argument for one
decision at a time: a writer that has missed a decision is refused. A refusal and a missing answer mean the same, that
the state is not to be trusted. It is thrown away and loaded from the log, and what is there decides: perhaps the very
record whose answer was lost. A load that lacks a record which the follower has shown is not believed. Since nobody can
tell what was sent before, a load also sends whatever must exist now (`recover`); whoever receives it recognises a
repetition.

Send. What follows from the inputs, and from the own record if there is one, goes out when that record is in the log,
never before. Messages that follow from records beyond the horizon (`horizon.py`) are fresh: nobody can have sent them.

Cursor. A record is handled when the decision on it is in the log, or nothing was to be decided, and `send` has called
back; the cursor is before the lowest one that is not. A successor follows from there and regards what is before it as
done, so a record passed too early would be decided on by nobody. One passed late is harmless: it is read again, its
decision is in the log, and whoever gets a message twice notices. Executions that may continue without a further record
(runs with workers, times to come) are named beside the cursor (`live`), and a successor loads them.

Trouble concerns one execution, never the others. If its core raises, memory or snapshot may be wrong: it is folded once
more from the log alone (`whole`). If it raises again, or the broker will never accept its record, it is set aside
(`set_aside.py`): its records count as handled, because they would otherwise hold the cursor for ever; later ones are
skipped, and the next start tries it again. So is one with a record that cannot be read, though not if that is forged.
Such records, and those of workers that do not fit, become dead letters, and are handled when the letter is there.

Pace. Costly templates are charged to their execution (`template_pace.py`): one that is ahead of its share rests before
its next turn, and after a heavy turn the others go first. Loads are limited in number (`load_pacing.py`), more so when
the broker is slow; so a restart with many executions does not bury it.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Generic

import structlog

from shared.bus import topology
from shared.bus.ports import Message
from shared.dsl.model.plan import PlanMissing
from shared.engine.core import Outgoing, S
from shared.engine.values.stored_values import Missing
from shared.errors import Conflict, Corrupt, Forged, NoetlError, Refused, Unavailable
from shared.events import subjects
from shared.events.authenticity import record_subject
from shared.events.command import FRESH_S
from shared.events.record import Entry, Record, decode, encode, subject_of
from shared.runtime.control.actor import Actor, forget_idle, kept
from shared.runtime.control.alarms import Alarms
from shared.runtime.control.background import Background
from shared.runtime.control.burials import Burials
from shared.runtime.control.horizon import Horizon
from shared.runtime.control.loader import Loader
from shared.runtime.control.preparation import Preparing
from shared.runtime.control.recovery import Recovery
from shared.runtime.control.set_aside import Asides, is_end, why
from shared.runtime.control.surroundings import Surroundings
from shared.runtime.control.turn import Ready, Turn, with_own

log = structlog.get_logger()
MAX_ACTORS = 20_000  # in one partition; those that must stay in memory may be more
SETTLE_S, SETTLE_TRIES = 0.05, 40
SNAPSHOT_EVERY = 500  # records folded into one execution


class Shell(Generic[S]):
    """One partition of a service."""

    def __init__(self, around: Surroundings[S], partition: int) -> None:
        self.bus, self.clock, self.core, self.send = around.bus, around.clock, around.core, around.send
        self.partition, self.partitions, self._drafting = partition, around.partitions, around.drafting
        self.loader, self.loads = Loader(around.bus, partition, around.partitions, around.core), around.loads
        self.snapshot_every = SNAPSHOT_EVERY
        self.stream = topology.events_stream(partition)
        self.horizon = Horizon(around.bus, around.clock, self.stream)
        self.recovery, self.background = Recovery(), Background()
        self._preparing = Preparing(around, self.loader, self.horizon, self.recovery)
        self.asides = Asides(around.bus, around.clock, around.core.writer, partition, around.partitions)
        self._burials = Burials(around.bus, around.clock, self.stream, around.quota)
        self.actors: dict[str, Actor[S]] = {}
        self._crowded = MAX_ACTORS
        self._open, self._seen = dict[int, None](), 0
        self._alarms = Alarms(around.clock, self._ring)
        self._witness, self.counts = around.witness, around.counts

    async def open(self, live: Sequence[str]) -> None:
        """Before following: what the cursor says is unfinished, and what was set aside."""
        await self.horizon.look()
        for execution_id in self.recovery.begin([*live, *await self.asides.known()]):
            self.load(execution_id)

    async def run(self, after: int) -> None:
        """Follows the partition for ever; cancel to stop."""
        self._seen = max(self._seen, after)
        filters = subjects.events_by(self.partition, *self.core.listens)
        follower = self.bus.follow(self.stream, filters, after)
        alarms = asyncio.create_task(self._alarms.run())
        alarms.add_done_callback(self.background.ended)
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
                await actor.pace.give_way()

    async def take(self, batch: Sequence[Message]) -> None:
        touched: dict[str, Actor[S]] = {}
        self.counts.took(batch, self.clock.now())
        await self.horizon.look_if_lost()
        before, read, fresh = self._seen, list[tuple[Message, Record]](), self.horizon.fresh_times()
        for message in batch:
            self._seen = message.seq
            try:
                record = decode(message, self.partitions)
            except Corrupt as error:
                await self._unreadable(message, error)
                continue
            read.append((message, record))
            actor = self.actors.get(record.execution_id)
            if actor is not None and actor.aside:
                self._skip(actor, record)
                continue
            if not fresh[0] <= record.ts <= fresh[1]:
                self.horizon.pass_old(message.seq)
            if actor is None:
                actor = self._new_actor(record)
            actor.inbox.append((message.seq, record))
            self._open[message.seq] = None
            touched[record.execution_id] = actor
        if self._witness is not None:
            self._witness(self.partition, before, self._seen, read)
        for actor in touched.values():
            if actor.busy:
                self.loads.hurry(actor.execution_id)
            else:
                await self.turn(actor)
                if actor.pace.heavy:
                    await actor.pace.give_way()

    async def _unreadable(self, message: Message, error: Corrupt) -> None:
        await self._burials.room()
        self._bury(message, str(error))
        execution_id = record_subject(message.subject, self.partitions).execution_id
        if execution_id and not isinstance(error, Forged):
            actor = self.actors.setdefault(execution_id, Actor(execution_id))
            self._set_aside(actor, error, message.seq)

    def _bury(self, message: Message, reason: str) -> None:
        """It is handled when its letter is there."""
        self._open[message.seq] = None
        self._burials.add(message, reason, partial(self._handled, [message.seq]))

    def _skip(self, actor: Actor[S], record: Record) -> None:
        """The execution was set aside: its record waits in the log for the next start. Its end removes the entry."""
        if is_end(record):
            del self.actors[actor.execution_id]
            self.asides.drop(actor.execution_id)

    def _new_actor(self, record: Record) -> Actor[S]:
        state = self.core.empty(record.execution_id) if self.core.first(record) else None
        actor = self.actors[record.execution_id] = Actor(record.execution_id, state)
        if len(self.actors) > self._crowded:
            self._crowded = forget_idle(self.actors, self.core, MAX_ACTORS)
        return actor

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

    async def turn(self, actor: Actor[S]) -> None:
        """Folds the inbox and decides, at the execution's pace; never waits for the broker's answer."""
        now = self.clock.now()
        if actor.state is None or (actor.pace.ahead and actor.pace.is_over(now)):
            return self._prepare_soon(actor)
        try:
            ready = self.counts.decided(self.core, actor, now, self.horizon.seq, self._drafting)
        except (Missing, PlanMissing):
            return self._prepare_soon(actor)
        except Exception as error:
            return self.stumbled(actor, error)
        return await self._write(actor, ready)

    async def _write(self, actor: Actor[S], ready: Ready[S] | None) -> None:
        """Sends the turn's record to the log, if it has one and its large values are stored."""
        if ready is None:
            actor.state = None
            return self._prepare_soon(actor)
        turn = ready.turn
        if turn.blobs and not turn.blobs.keys() <= actor.stored:
            ready.at = self.clock.now()
            return self._prepare_soon(actor, ready)
        taken = self._taken(actor, turn)
        if turn.record is None:
            return self._settle(actor, turn.messages, taken)
        actor.busy = True
        subject = subjects.event(self.partition, actor.execution_id, self.core.writer)
        try:
            future = await self.bus.send(subject, turn.data, expected=turn.state.seq)
        except Refused as error:
            return self._set_aside(actor, error, turn.state.as_of, taken)
        except Unavailable:
            return self._failed(actor, taken)
        future.add_done_callback(partial(self._stored, actor, turn, turn.record, taken))
        return None

    def _taken(self, actor: Actor[S], turn: Turn[S]) -> list[int]:
        """The turn is the actor's from here on; what does not fit is handled when its letter is there."""
        if actor.due:
            turn.messages, actor.due = actor.due + turn.messages, []
        taken, actor.state = actor.take(), turn.state
        actor.folded += len(taken)
        for (seq, record), reason in turn.unfit:
            self._bury(Message(subject_of(record, self.partitions), encode(record), seq), reason)
            taken.remove(seq)
        return taken

    def _stored(
        self, actor: Actor[S], turn: Turn[S], record: Record, taken: list[int], future: "asyncio.Future[int]"
    ) -> None:
        if future.cancelled():
            return None
        error = future.exception()
        self.counts.written += error is None
        if actor.aside:
            return self._handled(taken)
        if error is not None:
            if isinstance(error, Conflict):
                self.counts.conflicts += 1
                log.info("append.conflict", execution_id=actor.execution_id, writer=self.core.writer)
            if isinstance(error, Refused):
                return self._set_aside(actor, error, record.as_of, taken)
            return self._failed(actor, taken)
        own, messages = [(future.result(), record)], turn.messages
        try:
            actor.state = with_own(self.core, self._drafting, turn, *own[0])
            messages = [*messages, *self.core.outgoing(actor.state, own, actor.values, self.horizon.seq)]
        except (Missing, PlanMissing):
            return self.background.start(self._complete(actor, own, messages, taken))
        except Exception as stumbled:
            return self.stumbled(actor, stumbled, taken)
        return self._go_on(actor, messages, taken)

    async def _complete(
        self, actor: Actor[S], own: Sequence[Entry], messages: list[Outgoing], taken: list[int]
    ) -> None:
        """The messages of a record that speaks of stored values, which are fetched first. If that takes long or
        the connection was lost, the log is asked who has handled the record by now."""
        began, connections = self.clock.now(), self.bus.connections
        state = actor.state
        assert state is not None
        try:
            outgoing = partial(self.core.outgoing, state, own, actor.values, self.horizon.seq)
            found = await self._preparing.brought(actor, outgoing)
        except NoetlError:
            return self._failed(actor, taken)
        except Exception as error:
            return self.stumbled(actor, error, taken)
        if self.clock.now() - began > FRESH_S / 2 or self.bus.connections != connections:
            return self._failed(actor, taken)
        return self._go_on(actor, [*messages, *found], taken)

    def _go_on(self, actor: Actor[S], messages: list[Outgoing], taken: list[int]) -> None:
        if actor.aside:
            return self._handled(taken)
        actor.busy = False
        self._settle(actor, messages, taken)
        if actor.inbox:
            self.background.start(self._turn_if_free(actor))
        return None

    async def _turn_if_free(self, actor: Actor[S]) -> None:
        """A batch may have begun the turn meanwhile; two at once would decide the same twice."""
        if actor.inbox and not actor.busy:
            await self.turn(actor)

    def _settle(self, actor: Actor[S], messages: list[Outgoing], taken: list[int]) -> None:
        try:
            self.send(messages, partial(self._handled, taken)) if messages else self._handled(taken)
            if actor.state is None or actor.inbox:
                return
            due, over = self.core.due(actor.state), self.core.over(actor.state)
        except Exception as error:
            self.stumbled(actor, error, taken)
            return
        actor.whole = False
        if due is not None and due != actor.alarm:
            actor.alarm = due
            self._alarms.set(due, actor.execution_id)
        if over:
            self.actors.pop(actor.execution_id, None)
            if actor.saved:
                self.background.start(self.loader.snapshots.drop(actor.execution_id))
        elif actor.folded >= (every := self.snapshot_every) and (
                actor.folded >= every * self.loader.snapshots.weight(actor.execution_id)):
            actor.folded, actor.saved = 0, True
            self.background.start(self.loader.snapshots.put(actor.execution_id, actor.state))

    def _handled(self, taken: Sequence[int]) -> None:
        for seq in taken:
            self._open.pop(seq, None)

    def stumbled(self, actor: Actor[S], error: Exception, taken: Sequence[int] = ()) -> None:
        """What is in memory, or in a snapshot, may be wrong. The log is not."""
        if actor.whole:
            as_of = actor.state.as_of if actor.state is not None else 0
            return self._set_aside(actor, error, as_of, taken)
        log.warning("execution.stumbled", execution_id=actor.execution_id, reason=why(error))
        actor.whole = True
        return self._failed(actor, taken)

    def _set_aside(self, actor: Actor[S], error: BaseException, seq: int, taken: Sequence[int] = ()) -> None:
        """One execution that cannot continue must not stop the others: the cursor moves on without it."""
        self.recovery.tried(actor.execution_id)
        self.counts.aside += 1
        given = [*taken, *actor.set_aside()]
        self._handled(given)
        self.asides.add(actor.execution_id, error, max([seq, *given]) or self._seen)

    def _failed(self, actor: Actor[S], taken: Sequence[int]) -> None:
        """Nothing is certain now: the log decides."""
        if actor.aside:
            return self._handled(taken)
        actor.state = None
        actor.carried += taken
        return self._prepare_soon(actor)

    def _prepare_soon(self, actor: Actor[S], before: Ready[S] | None = None) -> None:
        actor.busy = True
        self.background.start(self._prepare(actor, before))

    async def _prepare(self, actor: Actor[S], before: Ready[S] | None) -> None:
        await actor.pace.rest(self.clock)
        found = await self._preparing.run(actor, before)
        self.recovery.tried(actor.execution_id)
        if actor.aside:
            return None
        if isinstance(found, Exception):
            return self._set_aside(actor, found, 0)
        self.asides.drop(actor.execution_id)
        actor.busy = False
        return await self._write(actor, found)

    @property
    def seen(self) -> int:
        """Everything up to here was read."""
        return self._seen

    @property
    def cursor(self) -> int:
        """Everything up to here is handled."""
        return next(iter(self._open), self._seen + 1) - 1

    def live(self) -> list[str]:
        """The executions that a successor must load."""
        return sorted(key for key, actor in self.actors.items() if kept(self.core, actor.state))

    async def settled(self) -> None:
        """Waits, not for long, until the turns under way are in the log."""
        for _ in range(SETTLE_TRIES):
            if not self._open and not self.background:
                return
            await self.clock.sleep(SETTLE_S)

    async def stop(self) -> None:
        self.recovery.done.set()
        tasks = self.background.stop()
        await asyncio.gather(*tasks, self.asides.stop(), self._burials.stop(), return_exceptions=True)
