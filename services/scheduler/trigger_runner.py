"""One trigger at work: messages come in, requests for executions go out.

From a stream, a message is acknowledged when its request is with the broker (or it is not wanted, or
can never become one): at least once, and one execution by its derived id. From a core subject it comes at
most once; what waits for a free place, or for the trigger's pace, waits in memory, and is lost with it.

Whoever may publish chooses how many messages come, and the trigger's author what one costs. A trigger has the pace of
an execution (`template_pace.py`): ahead of its share, its next message waits. A stream keeps the others meanwhile; of
core messages those that are too many are dropped, and one letter a minute says how many."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count

import msgspec
import structlog

from services.scheduler.template_turns import Turns
from services.scheduler.trigger_slots import Places
from shared.bus import dead_letters
from shared.bus.ports import Bus, Clock, Delivery, Inbox, Message
from shared.bus.trigger_consumer import durable
from shared.dsl.documents.triggers import Trigger
from shared.engine.automation.triggers import Arrived, Broken, react
from shared.errors import Corrupt, NoetlError, Refused
from shared.events import subjects
from shared.events.request import Request
from shared.runtime.control.letter_quota import Quota
from shared.runtime.control.template_pace import Pace

log = structlog.get_logger()
ORIGIN = "triggers"
BATCH = 32
MAX_WAITING = 1000  # core messages waiting for their turn or a place; more are dropped, and a letter says so
MAX_WAITING_BYTES = 32 * 1_048_576  # of them together
LOOK_S = 1.0
DROPPED_S = 60.0  # between two letters about dropped messages
RETRY_S = 1.0
MAX_TRIES = 50  # of one message; with the pauses between them, three quarters of an hour
LONGEST_PAUSE_S = 60.0


class Reactor:
    def __init__(
        self, bus: Bus, clock: Clock, trigger: Trigger, instance: str, partitions: int, turns: Turns
    ) -> None:
        self._bus, self._clock, self._trigger, self._instance = bus, clock, trigger, instance
        self._places = Places(bus, clock, trigger, partitions)
        self._log = log.bind(trigger=trigger.name)
        self._count = count(1)
        self._quota = Quota(clock.now, ORIGIN)
        self._turns, self._pace = turns, Pace()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"trigger-{self._trigger.name}")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def check(self) -> None:
        """Raises what ended it, if anything has."""
        if self._task is not None and self._task.done():
            self._task.result()

    async def _run(self) -> None:
        while True:
            try:
                await (self._from_stream() if self._trigger.stream else self._from_subject())
            except NoetlError as error:
                self._log.warning("trigger.waits", error=str(error))
                await self._clock.sleep(RETRY_S)

    # -- a stream

    async def _from_stream(self) -> None:
        consumer = await self._bus.consume(self._trigger.stream, durable(self._trigger.name), BATCH)
        try:
            while True:
                await asyncio.gather(*map(self._take, await consumer.batch(BATCH)))
        finally:
            await consumer.close()

    async def _take(self, delivery: Delivery) -> None:
        source = (self._trigger.stream, delivery.seq, delivery.epoch[0])
        arrived = Arrived(delivery.subject, delivery.data, delivery.headers or {}, source)
        try:
            if not await self._handled(arrived, delivery.progress, delivery.epoch[1]):
                await delivery.nak(pause_s(delivery.epoch[1]))
                return
            await delivery.ack()
        except asyncio.CancelledError:
            await delivery.nak()  # whoever looks after the trigger next need not wait for the lease
            raise

    # -- a core subject

    async def _from_subject(self) -> None:
        inbox = await self._bus.subscribe(self._trigger.subject)
        backlog = _Backlog()
        tasks = {
            asyncio.create_task(self._pump(inbox, backlog)), asyncio.create_task(self._tell_dropped(backlog)),
        }
        try:
            while True:
                message = await backlog.get()
                source = (self._instance, int(self._clock.now() * 1e6), next(self._count))
                arrived = Arrived(message.subject, message.data, message.headers or {}, source)
                tries = count(1)
                while not await self._handled(arrived, _nothing, tried := next(tries)):
                    await self._clock.sleep(pause_s(tried))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await inbox.close()

    async def _pump(self, inbox: Inbox, backlog: "_Backlog") -> None:
        while True:
            if not backlog.put(await inbox.message()):
                await asyncio.sleep(0)  # a flood is dropped without holding the others up

    async def _tell_dropped(self, backlog: "_Backlog") -> None:
        """For people, and not for every message."""
        while True:
            await backlog.is_dropping.wait()
            await self._clock.sleep(LOOK_S)
            count, last = backlog.dropped()
            reason = (f"{count} messages dropped: over {MAX_WAITING}, or {MAX_WAITING_BYTES} bytes, waited for the"
                      " trigger; this is the last of them")
            source = (self._instance, int(self._clock.now() * 1e6), next(self._count))
            arrived = Arrived(last.subject, last.data, last.headers or {}, source)
            with suppress(NoetlError):  # the line of the log is there
                await self._bury(arrived, reason, "trigger.dropped")
            await self._clock.sleep(DROPPED_S)

    # -- both

    async def _handled(self, arrived: Arrived, hold: Callable[[], Awaitable[None]], tried: int) -> bool:
        """False: not yet. Whatever is in a message, those after it get their turn: what cannot be is buried."""
        try:
            if tried > MAX_TRIES:
                await self._bury(arrived, f"tried {tried - 1} times without an end: the schedulers' logs say why")
            else:
                await self._handle_or_bury(arrived, hold)
        except NoetlError as error:
            self._log.warning("trigger.later", error=str(error), tried=tried)
            return False
        return True

    async def _handle_or_bury(self, arrived: Arrived, hold: Callable[[], Awaitable[None]]) -> None:
        try:
            await self._handle(arrived, hold)
        except (Corrupt, Refused) as error:
            await self._bury(arrived, str(error))
        except NoetlError:
            raise
        except Exception as error:
            self._log.exception("trigger.crashed")
            await self._bury(arrived, f"no scheduler could handle it: {type(error).__name__}")

    async def _handle(self, arrived: Arrived, hold: Callable[[], Awaitable[None]]) -> None:
        """Returns when nothing more is to be done for the message."""
        wanted = await self._reaction(arrived, hold)
        if isinstance(wanted, Broken):
            await self._bury(arrived, wanted.reason)
        elif wanted is not None and await self._admitted(wanted, hold):
            await self._bus.append(subjects.DERIVED, msgspec.json.encode(wanted))
            self._log.info("trigger.fired", execution_id=wanted.execution_id)

    async def _reaction(self, arrived: Arrived, hold: Callable[[], Awaitable[None]]) -> Request | Broken | None:
        """At the trigger's pace, and never two of them before others had their turn."""
        while True:
            async with self._turns:
                now = self._clock.now()
                if not self._pace.is_over(now):
                    with self._pace.counting(now):
                        return react(self._trigger, arrived)
            await hold()
            await self._clock.sleep(LOOK_S)

    async def _admitted(self, request: Request, hold: Callable[[], Awaitable[None]]) -> bool:
        """Waits for a free place if that is the rule; False: the message starts nothing."""
        while True:
            match await self._places.take(request.execution_id):
                case "taken":
                    return True
                case "known":
                    return False
            if self._trigger.when_full == "skip":
                self._log.info("trigger.skipped", execution_id=request.execution_id, most=self._trigger.max_running)
                return False
            await hold()
            await self._clock.sleep(LOOK_S)

    async def _bury(self, arrived: Arrived, reason: str, word: str = "trigger.broken") -> None:
        self._log.error(word, subject=arrived.subject, error=reason)
        stream, source = self._trigger.stream, arrived.source
        place = dead_letters.at_seq(stream, int(source[1])) if stream else " ".join(map(str, source))
        name = self._trigger.name
        if not self._quota.take(name):
            await self._quota.tell_over(self._bus, name)
            return
        await dead_letters.bury(
            self._bus, ORIGIN, place, reason, arrived.data, subject=arrived.subject, headers=arrived.headers,
            name=name, owner=name,
        )


class _Backlog:
    """Core messages that wait, bounded in number and bytes."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[Message] = asyncio.Queue(MAX_WAITING)
        self._bytes = self._dropped = 0
        self._last: Message | None = None
        self.is_dropping = asyncio.Event()

    def put(self, message: Message) -> bool:
        """False: there are too many, and it is dropped."""
        size = len(message.data)
        if self._waiting.full() or self._bytes + size > MAX_WAITING_BYTES:
            self._dropped, self._last = self._dropped + 1, message
            self.is_dropping.set()
            return False
        self._bytes += size
        self._waiting.put_nowait(message)
        return True

    async def get(self) -> Message:
        message = await self._waiting.get()
        self._bytes -= len(message.data)
        return message

    def dropped(self) -> tuple[int, Message]:
        """How many since the last call, and the last of them. There is one."""
        assert self._last is not None
        found, self._dropped = (self._dropped, self._last), 0
        self.is_dropping.clear()
        return found


def pause_s(tried: int) -> float:
    """Before the next try: soon at first, and a minute in the end."""
    return float(min(LONGEST_PAUSE_S, RETRY_S * 2 ** max(0, min(tried, 10) - 3)))


async def _nothing() -> None:
    """A core message has no lease."""
