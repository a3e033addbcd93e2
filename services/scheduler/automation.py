"""What starts executions by itself: schedules and triggers. Documents are followed in KV as people
change them; each is looked after by whoever owns its partition."""

import asyncio
from collections.abc import Callable

import structlog

from services.scheduler.schedule_timer import Timekeeper, Watch
from services.scheduler.template_turns import Turns
from services.scheduler.trigger_runner import Reactor
from shared.bus import topology
from shared.bus.kv import is_deleted, stream_of
from shared.bus.ports import Bus, Clock, Message
from shared.dsl.documents.schedules import Schedule
from shared.dsl.documents.triggers import Trigger
from shared.errors import Corrupt, NoetlError
from shared.events import subjects
from shared.runtime.stores import schedules as store_schedules

log = structlog.get_logger()
TICK_S = 1.0  # ownership and clocks may change without a word
RETRY_S = 1.0
AT_ONCE = 32  # schedules served side by side: many have the same time


class Automation:
    """`owned` gives the partitions this instance has."""

    def __init__(
        self, bus: Bus, clock: Clock, instance: str, partitions: int, owned: Callable[[], frozenset[int]]
    ) -> None:
        self._bus, self._clock, self._partitions, self._owned = bus, clock, partitions, owned
        self._turns = Turns()
        self._timekeeper = Timekeeper(bus, clock, partitions, self._turns)
        self._watches: dict[str, Watch] = {}
        self._triggers: dict[str, tuple[int, Trigger]] = {}
        self._reactors: dict[str, tuple[Trigger, Reactor]] = {}
        self._instance = instance
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """For ever; cancel to stop."""
        following = asyncio.create_task(self._follow())
        try:
            while True:
                self._changed.clear()
                await self._tick()
                await self._wait(following)
        finally:
            following.cancel()
            await asyncio.wait({following})
            for name in list(self._reactors):
                await self._reactors.pop(name)[1].stop()

    async def _wait(self, following: "asyncio.Task[None]") -> None:
        """Until the next time of a schedule, at most TICK_S, or a change of a document."""
        now = self._clock.now()
        owned = self._owned()
        due = min((watch.next_at for watch in self._watches.values() if watch.partition in owned), default=now + TICK_S)
        sleeping = asyncio.ensure_future(self._clock.sleep(min(max(due - now, 0.0), TICK_S)))
        changed = asyncio.create_task(self._changed.wait())
        try:
            await asyncio.wait({sleeping, changed, following}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            changed.cancel()
        if following.done():
            following.result()

    async def _tick(self) -> None:
        now, owned, due = self._clock.now(), self._owned(), list[Watch]()
        for watch in self._watches.values():
            if watch.partition not in owned:
                watch.forget()
            elif watch.next_at <= now:
                due.append(watch)
        for first in range(0, len(due), AT_ONCE):
            await asyncio.gather(*map(self._timekeeper.serve, due[first : first + AT_ONCE]))
        await self._react(owned)

    async def _react(self, owned: frozenset[int]) -> None:
        """Triggers of ours run as the document says; others do not run here."""
        wanted = {name: trigger for name, (partition, trigger) in self._triggers.items() if partition in owned}
        for name, (trigger, reactor) in list(self._reactors.items()):
            reactor.check()
            if wanted.get(name) != trigger:
                del self._reactors[name]
                await reactor.stop()
        for name, trigger in wanted.items():
            if name not in self._reactors:
                reactor = Reactor(self._bus, self._clock, trigger, self._instance, self._partitions, self._turns)
                self._reactors[name] = trigger, reactor
                reactor.start()

    # -- documents

    async def _follow(self) -> None:
        filters = [store_schedules.subject("Schedule"), store_schedules.subject("Trigger")]
        while True:
            follower = self._bus.follow(stream_of(topology.SCHEDULES), filters, 0)
            try:
                while True:
                    for message in await follower.batch():
                        self._read(message)
                        await asyncio.sleep(0)  # thousands of documents are read without holding the others up
                    self._changed.set()
            except NoetlError as error:  # the bucket is gone, or was recreated: what is there now counts
                log.warning("schedules.reread", error=str(error))
                self._watches.clear()
                self._triggers.clear()
                await self._clock.sleep(RETRY_S)
            finally:
                await follower.close()

    def _read(self, message: Message) -> None:
        kind, name = store_schedules.name_of(message.subject)
        self._watches.pop(name, None) if kind == "Schedule" else self._triggers.pop(name, None)
        if is_deleted(message.headers):
            return
        try:
            entry = store_schedules.decode(message.data)
            document = store_schedules.parse(entry, kind)
        except Corrupt as error:
            log.error("schedule.unreadable", kind=kind, name=name, error=str(error))
            return
        partition = subjects.partition_of(name, self._partitions)
        if isinstance(document, Schedule):
            self._watches[name] = Watch(document, entry, partition)
        else:
            self._triggers[name] = partition, document
