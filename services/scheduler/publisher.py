"""Hands messages to the broker, in the order in which they come, until the broker has each of them.

1. *Until it is there.* `Batch.then` is called when the broker has every message of the batch, and the cursor of the log
   waits for that. A crash before loses nothing: the successor reads the same records and sends again.
2. *Pipelined.* Sends do not wait for answers. A message without an answer, or refused, is put at the end of the line
   after a pause. So order is not a promise: a stop that overtakes its command is remembered (`stops.py`), and between
   commands of different runs order means nothing.
3. *Duplicate is success.* The subject holds a message already, or the broker remembers the id: somebody, perhaps this
   scheduler, has sent it. The exception is a command after a wait, whose predecessor may not be acknowledged yet.
4. *Fresh only if certain.* A worker starts a fresh command without reading the log, so `fresh` must never be wrong. It
   is taken off a command that waited longer than FRESH_S, that was meant for an earlier connection, or that was sent
   and not answered: it may have reached a worker. A fresh one is written only to the connection for which it was
   checked (`on`); check and write are one step in the client.
5. *Look first.* Nothing goes out over a connection before the queue was looked at over it (`looked`). Otherwise new
   commands would raise the sequence of a queue that was lost and made again, and hide the loss.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

import msgspec
import structlog

from services.scheduler.stops import Stops
from shared.bus.ports import Bus, Clock
from shared.engine.core import Outgoing
from shared.errors import Duplicate, NoetlError, Unavailable
from shared.events import command, subjects
from shared.events.command import FRESH_S, Command
from shared.events.headers import MESSAGE_ID
from shared.events.request import Control, Request
from shared.events.stop import Stop

log = structlog.get_logger()
RETRY_S = 0.25
NOT_FREE_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)  # pauses while the command before a wait is unacknowledged
REFUSED_S = 10.0  # it will be refused until an operator changes something


class Batch:
    """Calls `then` when the broker has every message that waits for it, and whoever puts it together has all."""

    __slots__ = ("left", "then")

    def __init__(self, then: Callable[[], None]) -> None:
        self.left, self.then = 1, then

    def taken(self) -> None:
        self.left -= 1
        if not self.left:
            self.then()


class Waiting:
    """A message on its way to the broker: `at` is when it was handed over, `connections` the connection it is meant
    for. `instead`, if it is issued again, is the sequence of the message that it replaces. Without a batch, nobody
    waits for it."""

    __slots__ = ("at", "batch", "connections", "held", "instead", "item", "tries")

    def __init__(self, item: Outgoing, batch: Batch | None, at: float, connections: int, instead: int = 0) -> None:
        self.item, self.batch, self.at, self.connections, self.instead = item, batch, at, connections, instead
        self.tries = 0
        self.held = False
        if batch is not None:
            batch.left += 1

    def taken(self) -> None:
        if self.batch is not None:
            self.batch.taken()

    def let_go(self) -> None:
        """Its sender need not wait until it is its turn: the log says that it is due, and will say so to the next."""
        self.taken()
        self.batch = None

    def is_next_try(self) -> bool:
        """Whether to try again although the subject is occupied. After a wait, the worker whose task waited may not
        have acknowledged its command yet, and will in a moment. If another worker holds the run, it comes to the end of
        the wait by itself; if that worker is lost, the sweep finds the run."""
        self.tries += 1
        is_after_wait = isinstance(self.item, Command) and self.item.since > 0 and not self.instead
        return is_after_wait and self.tries <= len(NOT_FREE_S)


class Publishing:
    def __init__(self, bus: Bus, clock: Clock) -> None:
        self._bus, self._clock = bus, clock
        self._stops = Stops(bus, clock)
        self._waiting: deque[Waiting] = deque()
        self._wake = asyncio.Event()
        self._looked_over = 0
        self.highest = 0  # sequence that the queue has answered with
        self.refused = 0

    def looked(self, connections: int) -> None:
        """The queue was looked at over this connection."""
        self._looked_over = connections
        self._wake.set()

    def add(self, waiting: Waiting) -> None:
        self._waiting.append(waiting)
        self._wake.set()

    def again(self, item: Command, instead: int) -> None:
        """`instead`: the sequence of the message that it replaces; 0: none is known."""
        self.add(Waiting(stale(item), None, self._clock.now(), self._bus.connections, instead))

    async def close(self) -> None:
        await self._stops.close()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting and self._looked_over == self._bus.connections:
                await self._publish(self._waiting.popleft())

    async def _publish(self, waiting: Waiting) -> None:
        item, on = waiting.item, None
        if isinstance(item, Stop):
            await self._stops.say(item)
            waiting.taken()
            return
        is_late = waiting.connections != self._bus.connections or self._clock.now() - waiting.at > FRESH_S
        if isinstance(item, Command):
            if self._stops.is_stopped(item):
                waiting.taken()
                return
            if item.fresh:
                if is_late:
                    item = waiting.item = stale(item)
                else:
                    on = waiting.connections
        subject, data, message_id = message_of(item, waiting.instead)
        try:
            headers = {MESSAGE_ID: message_id} if message_id else None
            future = await self._bus.send(subject, data, headers=headers, on=on)
        except NoetlError as error:
            self._not_sent(waiting, error)
        else:
            future.add_done_callback(partial(self._sent, waiting))

    def _sent(self, waiting: Waiting, future: "asyncio.Future[int]") -> None:
        try:
            seq = future.result()
        except asyncio.CancelledError:
            return
        except Duplicate:
            if waiting.is_next_try():
                self._later(NOT_FREE_S[waiting.tries - 1], waiting)
                return
        except BaseException as error:
            self._not_sent(waiting, error)
            return
        else:
            if seq > self.highest and isinstance(waiting.item, Command):
                self.highest = seq
        waiting.taken()

    def _not_sent(self, waiting: Waiting, error: BaseException) -> None:
        """No longer fresh: an unanswered publish may have reached a worker."""
        pause = RETRY_S
        if not isinstance(error, Unavailable):
            self.refused += 1
            log.error("command.refused", execution_id=waiting.item.execution_id, error=str(error))
            pause = REFUSED_S
        waiting.item = stale(waiting.item)
        self._later(pause, waiting)

    def _later(self, pause: float, waiting: Waiting) -> None:
        asyncio.get_running_loop().call_later(pause, self._requeue, waiting)

    def _requeue(self, waiting: Waiting) -> None:
        waiting.at, waiting.connections = self._clock.now(), self._bus.connections
        self.add(waiting)


def stale(item: Outgoing) -> Outgoing:
    return msgspec.structs.replace(item, fresh=False) if isinstance(item, Command) and item.fresh else item


def message_of(item: Outgoing, instead: int = 0) -> tuple[str, bytes, str]:
    """Subject, data and id. The ids are for two schedulers that both believe they own the partition. The broker
    remembers them for longer than twice FRESH_S, and in that time stores no second fresh command of a run, no second
    command after the same wait, and no second replacement of the same message. What was never sent before goes out
    under the id of the run alone, fresh or not: a fresh one that comes late, from a scheduler that was stopped before
    its publish, is then refused although the run has left the queue. Requests have none: others write to
    their stream too, and the broker would take a stranger's message of that id for ours. The router knows them
    again."""
    match item:
        case Command():
            subject = subject_of(item)
            if instead:
                return subject, command.encode(item), f"{subject}!{instead}"
            return subject, command.encode(item), f"{subject}@{item.since}" if item.since else subject
        case Control():
            return subjects.CANCEL, msgspec.json.encode(item), ""
        case Request():
            return subjects.CHILD, msgspec.json.encode(item), ""
        case _:
            raise AssertionError(f"a scheduler does not send {type(item).__name__}")


def subject_of(item: Command) -> str:
    return subjects.command(item.pool, item.execution_id, item.run_id, item.index)
