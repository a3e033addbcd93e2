"""One trigger at work: messages come in, requests for executions go out.

From a stream, a message is acknowledged when its request is with the broker (or it is not wanted, or
can never become one): at least once, and one execution by its derived id. From a core subject it comes at
most once; what waits for a free place waits in memory, and is lost with it."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count

import msgspec
import structlog

from services.scheduler.places import Places
from shared.bus.ports import Bus, Clock, Delivery, Inbox, Message
from shared.bus.trigger_consumer import durable
from shared.dsl.triggers import Trigger
from shared.engine.reacting import Arrived, Broken, react
from shared.errors import NoetlError
from shared.events import subjects
from shared.events.request import Request

log = structlog.get_logger()
BATCH = 32
MAX_WAITING = 1000  # core messages waiting for a place; more are dropped, and the log says so
LOOK_S = 1.0
RETRY_S = 1.0


class Reactor:
    def __init__(self, bus: Bus, clock: Clock, trigger: Trigger, instance: str, partitions: int) -> None:
        self._bus, self._clock, self._trigger, self._instance = bus, clock, trigger, instance
        self._places = Places(bus, clock, trigger, partitions)
        self._log = log.bind(trigger=trigger.name)
        self._count = count(1)
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
            await self._handle(arrived, delivery.progress)
            await delivery.ack()
        except asyncio.CancelledError:
            await delivery.nak()  # whoever looks after the trigger next need not wait for the lease
            raise
        except NoetlError as error:
            self._log.warning("trigger.later", seq=delivery.seq, error=str(error))
            await delivery.nak(RETRY_S)

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
                while not await self._handled(arrived):
                    await self._clock.sleep(RETRY_S)
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

    async def _handled(self, arrived: Arrived) -> bool:
        try:
            await self._handle(arrived, _nothing)
        except NoetlError as error:
            self._log.warning("trigger.later", error=str(error))
            return False
        return True

    # -- both

    async def _handle(self, arrived: Arrived, hold: Callable[[], Awaitable[None]]) -> None:
        """Returns when nothing more is to be done for the message."""
        wanted = react(self._trigger, arrived)
        if isinstance(wanted, Broken):
            await self._bury(arrived, wanted.reason)
        elif wanted is not None and await self._admitted(wanted, hold):
            await self._bus.append(subjects.EXECUTE, msgspec.json.encode(wanted))
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
        note = {"trigger": self._trigger.name, "reason": reason, "subject": arrived.subject,
                "message": arrived.data.decode(errors="replace")}
        await self._bus.append(subjects.dead("triggers"), msgspec.json.encode(note))


async def _nothing() -> None:
    """A core message has no lease."""
