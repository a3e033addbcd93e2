"""Tells everyone who listens that an execution is over: a message on `noetl.ends.<status>.<execution>.<path>`.

Theory of operation
-------------------
1. *It follows the log.* What the router decided is read after it was decided, in order, for the partitions this
   instance owns. Nothing waits for it: while it is behind, or its stream does not take anything, executions continue.
   The shells of the scheduler read the same records, so as a rule they are heard of from there (`hear`). What was read
   before anybody listened, and whatever of a line was missed, is read from the log once more.
2. *Each end is told once.* Its subject names the execution, and the message expects to be the first there. So whoever
   tells it again (after a crash, or two instances at once) is refused by the broker, for as long as it is kept.
3. *None is left out.* The cursor passes an end when the broker has it and what follows from it (`notify.py`) has been
   asked for. With the cursor lost, everything is read again, and rule 2 holds.
4. *What is older than the stream keeps is passed over*: nobody could tell any more whether it was told.

An end needs the execution's first record, for its path and labels. Those that come by are kept for a while; for others
the log is asked.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing

import msgspec
import structlog

from services.scheduler.notify import Notifier
from shared.answers.history.end import End, end_of, processed
from shared.bus import topology
from shared.bus.ports import Bus, Clock, Message, append_once
from shared.errors import Conflict, Corrupt, NoetlError, Refused, Unavailable
from shared.events import subjects
from shared.events.record import Record, decode
from shared.runtime.control.partitions import Cursor, decode_cursor
from shared.runtime.control.set_aside import is_end

log = structlog.get_logger()
TICK_S = 1.0
RETRY_S = 1.0
MAX_HEARD = 10_000  # records about ends that wait to be told; with more, the log is read again
MAX_FIRST = 4096  # first records kept in memory,
MAX_FIRST_BYTES = 4096  # those up to this size
END = b'"playbook.processed"'
FIRST = b'"playbook.execution.requested"'
_Read = tuple[Message, Record]
_Sent = tuple[Record, End, str, bytes, "asyncio.Future[int]"]  # of an end: its first record, subject, data, answer


class _Line:
    """What a shell reads, as far as it is about ends: complete from where the line began up to `seen`, unless it is
    `torn`."""

    def __init__(self, seen: int) -> None:
        self.seen = seen
        self.torn = False
        self.news = asyncio.Event()
        self._heard: list[_Read] = []

    def hear(self, after: int, seen: int, found: list[_Read]) -> None:
        """A shell that takes the partition anew begins where its cursor is: that may be further on."""
        if after > self.seen or len(self._heard) + len(found) > MAX_HEARD:
            self.torn = True
            self._heard.clear()
        else:
            self._heard += found
            self.seen = max(self.seen, seen)
        if found or self.torn:
            self.news.set()

    def take(self) -> list[_Read]:
        self.news.clear()
        found, self._heard = self._heard, []
        return found


class Ends:
    """`seen` gives the partitions this instance has, and how far each was read."""

    def __init__(
        self, bus: Bus, clock: Clock, partitions: int, seen: Callable[[], Mapping[int, int]], notifier: Notifier
    ) -> None:
        self._bus, self._clock, self._partitions, self._seen, self._notifier = bus, clock, partitions, seen, notifier
        self._running: dict[int, asyncio.Task[None]] = {}
        self._lines: dict[int, _Line] = {}
        self.told: dict[str, int] = {}  # how many, by status

    def hear(self, partition: int, after: int, seen: int, records: Sequence[_Read]) -> None:
        """The shell of a partition has read these."""
        line = self._lines.get(partition)
        if line is not None and not line.torn:
            line.hear(after, seen, [each for each in records if _is_notable(each[1])])

    async def run(self) -> None:
        """For ever; cancel to stop."""
        try:
            while True:
                owned = self._seen().keys()
                for partition in set(self._running) - owned:
                    await self._drop(partition)
                for partition in owned - set(self._running):
                    self._running[partition] = asyncio.create_task(self._keep(partition), name=f"ends-{partition}")
                for task in self._running.values():
                    if task.done():
                        task.result()
                for line in self._lines.values():
                    line.news.set()  # for the cursor
                await self._clock.sleep(TICK_S)
        finally:
            for partition in list(self._running):
                await self._drop(partition)

    async def _drop(self, partition: int) -> None:
        self._lines.pop(partition, None)
        task = self._running.pop(partition)
        task.cancel()
        await asyncio.wait({task})

    async def _keep(self, partition: int) -> None:
        while True:
            try:
                entry = await self._bus.kv_get(topology.CURSORS, _key(partition))
                cursor = decode_cursor(entry.value) if entry is not None else Cursor()
                await self._follow(partition, cursor.seq)
            except NoetlError as error:
                log.warning("ends.wait", partition=partition, error=str(error))
                await self._clock.sleep(RETRY_S)

    async def _follow(self, partition: int, after: int) -> None:
        """Until the line is torn, or something fails."""
        saved, save_at = after, 0.0
        try:
            async with aclosing(self._told(partition, after)) as telling:
                async for after in telling:
                    if after != saved and self._clock.now() >= save_at:
                        await self._save(partition, after)
                        saved, save_at = after, self._clock.now() + TICK_S
        finally:
            if after != saved:
                await asyncio.shield(asyncio.ensure_future(self._save_last(partition, after)))

    async def _told(self, partition: int, after: int) -> AsyncGenerator[int, None]:
        """Tells, and says up to where all is told: first what the shell has read before it was listened to. Ends when
        the shell has read what was not heard here."""
        told = _Teller(self._bus, self._clock, self._notifier, partition, self._partitions, self.told)
        line = self._lines[partition] = _Line(self._seen().get(partition, after))
        if after < line.seen:
            begun, stream = line.seen, topology.events_stream(partition)
            follower = self._bus.follow(stream, [subjects.event(partition, "*", subjects.ROUTER)], after)
            try:
                while after < begun:
                    batch = await follower.batch()
                    await told.take(batch)
                    yield (after := batch[-1].seq)
            finally:
                await follower.close()
        while not line.torn and self._seen().get(partition, 0) <= line.seen:
            await line.news.wait()
            heard, seen = line.take(), line.seen
            await told.hear([each for each in heard if each[0].seq > after])
            yield (after := max(after, seen))

    async def _save(self, partition: int, seq: int) -> None:
        await self._bus.kv_put(topology.CURSORS, _key(partition), msgspec.json.encode(Cursor(seq)))

    async def _save_last(self, partition: int, seq: int) -> None:
        try:
            await self._save(partition, seq)
        except NoetlError as error:  # what lies behind it is read again
            log.warning("cursor.not_saved", partition=partition, error=str(error))


class _Teller:
    """One partition's ends, in the order of the log."""

    def __init__(
        self, bus: Bus, clock: Clock, notifier: Notifier, partition: int, partitions: int, count: dict[str, int]
    ) -> None:
        self._count = count
        self._bus, self._clock, self._notifier = bus, clock, notifier
        self._stream, self._partitions = topology.events_stream(partition), partitions
        self._firsts: OrderedDict[str, Record] = OrderedDict()

    async def take(self, batch: Sequence[Message]) -> None:
        """By what is in its text: most records are neither a first nor a last one, and are not decoded here. One that
        only quotes such a word is noticed when it is."""
        found = list[_Read]()
        for message in batch:
            if END in message.data or FIRST in message.data[:1024]:
                try:
                    found.append((message, decode(message, self._partitions)))
                except Corrupt as error:  # the router has set the execution aside, and says why
                    log.warning("end.unreadable", seq=message.seq, error=str(error))
        await self.hear(found)

    async def hear(self, records: Sequence[_Read]) -> None:
        sent = list[_Sent]()
        for message, record in records:
            if record.n == 1 and len(message.data) <= MAX_FIRST_BYTES:
                self._firsts[message.subject] = record
                if len(self._firsts) > MAX_FIRST:
                    self._firsts.popitem(last=False)
            if processed(record) is not None and (telling := await self._send(message, record)) is not None:
                sent.append(telling)
        for telling in sent:
            await self._sent(telling)

    async def _send(self, message: Message, last: Record) -> _Sent | None:
        """None: there is nothing to tell."""
        if message.at and message.at / 1e9 < self._clock.now() - topology.ENDS_KEPT_S:
            return None
        try:
            first = last if last.n == 1 else await self._first(message.subject)
        except Corrupt as error:
            log.warning("end.unreadable", seq=message.seq, error=str(error))
            return None
        end = end_of(first, last)
        if end is None:
            return None
        subject = subjects.end(end.status, end.execution_id, end.path)
        data = msgspec.json.encode(end)
        try:
            answer = await self._bus.send(subject, data, expected=0)
        except Refused as error:
            answer = asyncio.get_running_loop().create_future()
            answer.set_exception(error)
            answer.exception()  # if nobody comes to ask, because another one failed before
        return first, end, subject, data, answer

    async def _sent(self, telling: _Sent) -> None:
        """The broker has the end, or whoever told it before has."""
        first, end, subject, data, answer = telling
        try:
            try:
                await answer
            except (Conflict, Unavailable):  # perhaps it is there: told before, or stored without an answer
                await append_once(self._bus, topology.ENDS, subject, data)
        except Refused as error:  # the broker will never take it
            log.error("end.refused", execution_id=end.execution_id, error=str(error))
        self._count[end.status] = self._count.get(end.status, 0) + 1
        await self._notifier.notify(first, end)

    async def _first(self, subject: str) -> Record:
        if (first := self._firsts.pop(subject, None)) is not None:
            return first
        found = await self._bus.find(self._stream, subject)
        if found is None:
            raise Corrupt("the execution has no beginning in the log")
        return decode(found, self._partitions)


def _is_notable(record: Record) -> bool:
    """A first decision or a last one."""
    return record.writer == subjects.ROUTER and (record.n == 1 or is_end(record))


def _key(partition: int) -> str:
    return f"ends.{partition}"
