"""Verifies executions of a running stack: one by its id, or everything the log holds, with bounded memory."""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from services.cli.verify.read_model import ReadModel, compare
from services.cli.verify.unfinished import MAX_WATCHED, Watch
from services.cli.verify.verdict import Projection, Sources, Verdict, Word, examine
from shared.answers.why.stuck import STILL_S
from shared.bus.ports import Bus, Follower, Message
from shared.bus.topology import events_stream
from shared.errors import Unavailable
from shared.events import subjects
from shared.events.stamp import seconds

MAX_TRIES = 5                        # to compare an execution that moves on meanwhile
MAX_HELD_BYTES = 256 * 1_048_576     # of histories in memory; larger ones are read again by themselves
MAX_LATELY = 500                     # executions that ended and may still get late reports
BATCH = 100                          # executions compared with the read model at a time
MAX_LISTED = 1000                    # of those that are not right
SILENCE_S = 30.0                     # of a stream that has more
_END = b'"playbook.processed"'


class Checker:
    """`model` None: the read model is left alone; `watch` None: so is what is around executions that are not over."""

    def __init__(
        self, bus: Bus, partitions: int, model: ReadModel | None, wait_s: float, watch: Watch | None = None
    ) -> None:
        self.bus, self.partitions, self.model, self.wait_s, self.watch = bus, partitions, model, wait_s, watch
        self.sources = Sources(bus, partitions)

    async def one(self, execution_id: str, wait_s: float | None = None) -> tuple[Verdict, list[Message]] | None:
        """None when the log does not know it."""
        wait = self.wait_s if wait_s is None else wait_s
        partition = subjects.partition_of(execution_id, self.partitions)
        before = 0
        for _ in range(MAX_TRIES):
            messages = await self.bus.read(events_stream(partition), [subjects.events_of(partition, execution_id)])
            if not messages:
                return None
            verdict = await examine(self.sources, execution_id, messages)
            if await self._is_compared(verdict, partition, messages, wait, before):
                return verdict, messages
            before = verdict.last
        verdict.projection = Projection("behind", reason="the execution moves on while it is compared")
        return verdict, messages

    async def look_around(self, verdict: Verdict) -> None:
        """Says of an execution that is not over what nothing will move."""
        if self.watch is not None and stands_still(verdict):
            found = await self.watch.stuck([verdict.execution_id])
            if found:
                verdict.violated(*found[verdict.execution_id])

    async def _is_compared(
        self, verdict: Verdict, partition: int, messages: Sequence[Message], wait_s: float, before: int
    ) -> bool:
        """False when the read model has seen more of the execution than was read. A log that has no more than
        `before` is all there is, whatever the rows say."""
        if self.model is None:
            return True
        caught_up = await self.model.caught_up(partition, verdict.last, wait_s)
        found = await self.model.found(partition, [verdict.execution_id]) if caught_up else None
        if found is None:
            verdict.projection = _not_there(self.model)
        elif found.seen(verdict.execution_id) > verdict.last and verdict.last != before:
            return False
        else:
            compare(verdict, self.partitions, messages, found)
        return True

    async def several(self, partition: int, histories: dict[str, list[Message]]) -> AsyncIterator[Verdict | str]:
        """Verdicts on histories that were read; the name alone of one that has to be read again."""
        verdicts = [await examine(self.sources, key, messages) for key, messages in histories.items()]
        found = await self.model.found(partition, list(histories)) if self.model is not None else None
        for verdict in verdicts:
            if found is None or found.cursor < verdict.last:
                verdict.projection = _not_there(self.model) if self.model is not None else Projection()
            elif found.seen(verdict.execution_id) > verdict.last:
                yield verdict.execution_id
                continue
            else:
                compare(verdict, self.partitions, histories[verdict.execution_id], found)
            yield verdict


def _not_there(model: ReadModel) -> Projection:
    return Projection("unknown", reason=model.error) if model.error else Projection(
        "behind", reason="the read model is behind the log")


def stands_still(verdict: Verdict) -> bool:
    """It is not over, and has not gone on for a while."""
    try:
        return not verdict.over and time.time() - seconds(verdict.last_at) > STILL_S
    except ValueError:
        return True  # a record of no time


class Counts(Struct, frozen=True):
    """What one execution adds to the whole."""

    word: Word
    projection: str
    records: int = 0
    events: int = 0
    rows: int = 0


class Summary(Struct):
    """Of all executions; `listed` are the first of those that are not right. `still` are the first of those that are
    not over and do not proceed, of which there are `more`."""

    known: dict[str, Counts] = {}
    listed: dict[str, Verdict] = {}
    reason: str = ""
    still: dict[str, Verdict] = {}
    more: int = 0

    def add(self, verdict: Verdict) -> None:
        """One that was looked at again is counted as it is now."""
        writers = verdict.proof.writers.values() if verdict.proof is not None else ()
        records, events = (sum(counted[name] for counted in writers) for name in ("records", "events"))
        rows = verdict.projection.rows
        key = verdict.execution_id
        self.known[key] = Counts(verdict.verdict, verdict.projection.state, records, events, rows)
        self.reason = self.reason or verdict.projection.reason
        self.listed.pop(key, None)
        if verdict.verdict in ("violated", "unverifiable") and len(self.listed) < MAX_LISTED:
            self.listed[key] = verdict
        self.still.pop(key, None)
        if stands_still(verdict):
            if len(self.still) < MAX_WATCHED:
                self.still[key] = verdict
            else:
                self.more += 1

    def words(self) -> Counter[str]:
        return Counter(counts.word for counts in self.known.values())

    def projections(self) -> Counter[str]:
        return Counter(counts.projection for counts in self.known.values())


class Walk:
    """One partition from its beginning to where it ended when the walk began. A history is verified when its end
    has been seen and a while has passed; what comes later, or is too much to hold, is read by itself at the end."""

    def __init__(
        self, checker: Checker, partition: int, summary: Summary, tell: Callable[[Summary], None],
        since: datetime | None = None,
    ) -> None:
        self._checker, self._partition, self._summary, self._tell = checker, partition, summary, tell
        self._since, self._older = since, set[str]()
        self._held: dict[str, list[Message]] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._again: dict[str, None] = {}
        self._bytes = 0

    async def run(self) -> None:
        checker, partition = self._checker, self._partition
        stream = events_stream(partition)
        last = await checker.bus.last_seq(stream)
        caught_up = checker.model is None or await checker.model.caught_up(partition, last, checker.wait_s)
        async for message in _until(checker.bus, stream, partition, last):
            self._take(message)
            if len(self._ended) >= MAX_LATELY + BATCH:
                await self._verify([self._ended.popitem(last=False)[0] for _ in range(BATCH)])
        await self._verify(list(self._held))
        for execution_id in self._again:
            found = await checker.one(execution_id, None if caught_up else 0.0)
            if found is not None:
                self._summary.add(found[0])
                self._tell(self._summary)

    def _take(self, message: Message) -> None:
        place = subjects.parse_event(message.subject)
        execution_id = place.execution_id
        if execution_id in self._again or self._is_older(execution_id, message):
            return
        if execution_id in self._summary.known:
            self._again[execution_id] = None
            return
        self._held.setdefault(execution_id, []).append(message)
        self._bytes += len(message.data)
        if place.writer == "router" and _END in message.data:
            self._ended[execution_id] = None
        if self._bytes > MAX_HELD_BYTES:
            self._let_go()

    def _is_older(self, execution_id: str, message: Message) -> bool:
        """It began before the time that was asked for: its first message in the stream says when."""
        if self._since is None or execution_id in self._held or execution_id in self._summary.known:
            return False
        if execution_id not in self._older and _began(message) < self._since:
            self._older.add(execution_id)
        return execution_id in self._older

    def _let_go(self) -> None:
        """Of the largest history in memory."""
        largest = max(self._held, key=lambda key: sum(len(message.data) for message in self._held[key]))
        self._drop([largest])
        self._ended.pop(largest, None)
        self._again[largest] = None

    def _drop(self, executions: Iterable[str]) -> dict[str, list[Message]]:
        dropped = {key: self._held.pop(key) for key in executions}
        self._bytes -= sum(len(message.data) for messages in dropped.values() for message in messages)
        return dropped

    async def _verify(self, executions: list[str]) -> None:
        for at in range(0, len(executions), BATCH):
            histories = self._drop(executions[at : at + BATCH])
            async for verdict in self._checker.several(self._partition, histories):
                if isinstance(verdict, str):
                    self._again[verdict] = None
                else:
                    self._summary.add(verdict)
            self._tell(self._summary)


class _When(Struct):
    ts: datetime


_when = msgspec.json.Decoder(_When)


def _began(message: Message) -> datetime:
    """What cannot be read has begun just now: it is reported, not left out."""
    try:
        return _when.decode(message.data).ts.astimezone(UTC)
    except msgspec.MsgspecError:
        return datetime.max.replace(tzinfo=UTC)


async def _until(bus: Bus, stream: str, partition: int, last: int) -> AsyncIterator[Message]:
    """Everything up to there, a batch in memory at a time."""
    if not last:
        return
    follower = bus.follow(stream, [f"{subjects.EVENTS}.{partition}.>"], 0, lazy=True)
    try:
        while True:
            for message in await _batch(follower, stream, last):
                if message.seq <= last:
                    yield message
                if message.seq >= last:
                    return
    finally:
        await follower.close()


async def _batch(follower: Follower, stream: str, last: int) -> Sequence[Message]:
    try:
        async with asyncio.timeout(SILENCE_S):
            return await follower.batch()
    except TimeoutError:
        raise Unavailable(f"{stream} should hold messages up to {last}, and gives none in {SILENCE_S:g} s") from None


async def everything(
    checker: Checker, tell: Callable[[Summary], None] = lambda _: None, since: datetime | None = None
) -> Summary:
    """Every execution in the log, or every one that began since."""
    summary = Summary()
    for partition in range(checker.partitions):
        await Walk(checker, partition, summary, tell, since).run()
    if checker.watch is not None:
        for execution_id, found in (await checker.watch.stuck(summary.still)).items():
            verdict = summary.still[execution_id]
            verdict.violated(*found)
            summary.add(verdict)
    return summary
