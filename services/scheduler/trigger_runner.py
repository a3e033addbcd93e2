"""One trigger at work: messages come in, requests for executions go out.

From a stream, a message is acknowledged when its request is with the broker (or it is not wanted, or
can never become one): at least once, and one execution by its derived id. From a core subject it comes at
most once; what waits for a free place waits in memory, and is lost with it."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count

import msgspec
import structlog

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

log = structlog.get_logger()
ORIGIN = "triggers"
BATCH = 32
MAX_WAITING = 1000  # core messages waiting for a place; more are dropped, and the log says so
LOOK_S = 1.0
RETRY_S = 1.0
MAX_TRIES = 50  # of one message; with the pauses between them, three quarters of an hour
LONGEST_PAUSE_S = 60.0


class Reactor:
    def __init__(self, bus: Bus, clock: Clock, trigger: Trigger, instance: str, partitions: int) -> None:
        self._bus, self._clock, self._trigger, self._instance = bus, clock, trigger, instance
        self._places = Places(bus, clock, trigger, partitions)
        self._log = log.bind(trigger=trigger.name)
        self._count = count(1)
        self._quota = Quota(clock.now, ORIGIN)
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
        waiting: asyncio.Queue[Message] = asyncio.Queue(MAX_WAITING)
        pump = asyncio.create_task(self._pump(inbox, waiting))
        try:
            while True:
                message = await waiting.get()
                source = (self._instance, int(self._clock.now() * 1e6), next(self._count))
                arrived = Arrived(message.subject, message.data, message.headers or {}, source)
                tries = count(1)
                while not await self._handled(arrived, _nothing, tried := next(tries)):
                    await self._clock.sleep(pause_s(tried))
        finally:
            pump.cancel()
            await asyncio.wait({pump})
            await inbox.close()

    async def _pump(self, inbox: Inbox, waiting: "asyncio.Queue[Message]") -> None:
        while True:
            message = await inbox.message()
            try:
                waiting.put_nowait(message)
            except asyncio.QueueFull:
                self._log.warning("trigger.dropped", subject=message.subject, limit=MAX_WAITING)

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
        wanted = react(self._trigger, arrived)
        if isinstance(wanted, Broken):
            await self._bury(arrived, wanted.reason)
        elif wanted is not None and await self._admitted(wanted, hold):
            await self._bus.append(subjects.DERIVED, msgspec.json.encode(wanted))
            self._log.info("trigger.fired", execution_id=wanted.execution_id)

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

    async def _bury(self, arrived: Arrived, reason: str) -> None:
        self._log.error("trigger.broken", subject=arrived.subject, error=reason)
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


def pause_s(tried: int) -> float:
    """Before the next try: soon at first, and a minute in the end."""
    return float(min(LONGEST_PAUSE_S, RETRY_S * 2 ** max(0, min(tried, 10) - 3)))


async def _nothing() -> None:
    """A core message has no lease."""
