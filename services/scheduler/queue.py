"""The command queue as the scheduler sees it: publishing, and issuing again after the queue was lost.

The queue is in memory. When the broker restarts it is gone, and its creation time is new: then every
command that the log says is due is published again, except those a live worker still holds. A run
skipped for that reason is looked at until its worker reports or is gone.
Single commands get lost too: the queue takes an acknowledgement from a lease that is over, and with it
goes the command that a later lease holds; if that worker dies, nobody is left. So a sweep publishes
what was due and held by nobody twice in a row: what is still in the queue is refused there.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

import msgspec
import structlog

from shared.bus import topology
from shared.bus.ports import Bus, Clock
from shared.errors import Duplicate, NoetlError, Unavailable
from shared.events import command, subjects
from shared.events.beat import Beat, Key
from shared.events.command import Command
from shared.runtime.shell import FRESH_S

log = structlog.get_logger()
WATCH_S = 1.0
RETRY_S = 0.25
REFUSED_S = 10.0  # someone has to change something first
GRACE_S = 2.0  # after a loss, workers get this long to connect again and say what they hold
SWEEP_S = 20.0
MAX_SWEEP = 2000  # commands; the oldest first, and a queue in order gets to the oldest first too
MSG_ID_HEADER = "Nats-Msg-Id"


class _Batch:
    """Calls `then` when the broker has every command of the batch."""

    __slots__ = ("left", "then")

    def __init__(self, left: int, then: Callable[[], None]) -> None:
        self.left, self.then = left, then

    def taken(self) -> None:
        self.left -= 1
        if not self.left:
            self.then()


class CommandQueue:
    """`remake` creates the queue's stream and consumers; `due` lists all outstanding commands."""

    def __init__(
        self, bus: Bus, clock: Clock, remake: Callable[[], Awaitable[object]], due: Callable[[], Iterable[Command]]
    ) -> None:
        self._bus = bus
        self._clock = clock
        self._remake = remake
        self._due = due
        self._waiting: deque[tuple[Command, _Batch, float, int]] = deque()
        self._wake = asyncio.Event()
        self._created = 0
        self._known = asyncio.Event()
        self._skipped: set[Key] = set()
        self._idle: set[Key] = set()
        self._swept = clock.now()

    def send(self, commands: Sequence[Command], then: Callable[[], None]) -> None:
        batch, now, connections = _Batch(len(commands), then), self._clock.now(), self._bus.connections
        self._waiting.extend((item, batch, now, connections) for item in commands)
        self._wake.set()

    async def run(self) -> None:
        """Publishes only once it knows the queue's time of creation: else a loss could go unnoticed."""
        await self._known.wait()
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                item, batch, since, connections = self._waiting.popleft()
                subject = subjects.command(item.pool, item.execution_id, item.run_id, item.index)
                late = self._clock.now() - since > FRESH_S or connections != self._bus.connections
                if item.fresh and late:
                    item = msgspec.structs.replace(item, fresh=False)
                # Another scheduler may believe it owns the partition too. The broker remembers ids for
                # longer than twice FRESH_S: a fresh command is refused if the run ever had one.
                headers = {MSG_ID_HEADER: subject}
                try:
                    future = await self._bus.send(subject, command.encode(item), headers=headers)
                except NoetlError as error:
                    self._not_sent(item, batch, error)
                else:
                    future.add_done_callback(partial(self._sent, item, batch))

    def _sent(self, item: Command, batch: _Batch, future: "asyncio.Future[int]") -> None:
        if future.cancelled():
            return
        error = future.exception()
        if error is None or isinstance(error, Duplicate):
            batch.taken()
            return
        self._not_sent(item, batch, error)

    def _not_sent(self, item: Command, batch: _Batch, error: BaseException) -> None:
        """Not fresh any more: an unanswered publish may have reached a worker."""
        pause = RETRY_S
        if not isinstance(error, Unavailable):
            log.error("command.refused", execution_id=item.execution_id, run_id=item.run_id, error=str(error))
            pause = REFUSED_S
        stale = msgspec.structs.replace(item, fresh=False)
        asyncio.get_running_loop().call_later(pause, self._requeue, stale, batch)

    def _requeue(self, item: Command, batch: _Batch) -> None:
        self._waiting.append((item, batch, self._clock.now(), self._bus.connections))
        self._wake.set()

    # -- loss --------------------------------------------------------------------------

    async def watch(self) -> None:
        """Notices a new queue, and workers that died holding a run of the lost one."""
        while True:
            try:
                await self._look()
            except NoetlError as error:
                log.warning("queue.waits", error=str(error))
            await self._clock.sleep(WATCH_S)

    async def _look(self) -> None:
        try:
            created = await self._bus.created(topology.COMMANDS)
        except Unavailable:
            await self._remake()
            created = await self._bus.created(topology.COMMANDS)
        if self._created and created != self._created:
            await self._remake()
            await self._clock.sleep(GRACE_S)
            await self._issue_again()
        elif self._skipped:
            await self._look_at_skipped()
        elif self._clock.now() - self._swept > SWEEP_S:
            await self._sweep()
        self._created = created
        self._known.set()

    async def _issue_again(self) -> None:
        held = await self._held()
        due = {_key(item): item for item in self._due()}
        self._skipped = held & due.keys()
        lost = [item for key, item in due.items() if key not in held]
        log.warning("queue.lost", issued_again=len(lost), held_by_workers=len(self._skipped))
        if lost:
            self.send(lost, lambda: None)

    async def _look_at_skipped(self) -> None:
        held = await self._held()
        due = {_key(item): item for item in self._due()}
        gone = [item for key, item in due.items() if key in self._skipped and key not in held]
        self._skipped = {key for key in self._skipped if key in due and key in held}
        if gone:
            log.warning("worker.gone", issued_again=len(gone))
            self.send(gone, lambda: None)

    async def _sweep(self) -> None:
        held = await self._held()
        due = {key: item for item in self._due() if (key := _key(item)) not in held}
        lost = [item for key, item in due.items() if key in self._idle][:MAX_SWEEP]
        self._idle, self._swept = set(due), self._clock.now()
        if lost:
            self.send(lost, lambda: None)

    async def _held(self) -> set[Key]:
        beats = await self._bus.kv_all(topology.WORKERS)
        return {key for data in beats.values() for key in msgspec.json.decode(data, type=Beat).held}


def _key(item: Command) -> Key:
    return item.execution_id, item.run_id, item.index
