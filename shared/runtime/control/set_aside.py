"""Executions that a control service has set aside: it cannot continue them, and continues all others.

The fact is an entry of a bucket, under the execution and the service, for people to see; it decides nothing. It is
written in the background until the broker has it. A service that starts tries each execution once more that it had
set aside: after an upgrade it may work, and then the entry is deleted.
"""

import asyncio
from collections.abc import Coroutine
from pathlib import PurePath
from traceback import extract_tb

import msgspec
import structlog
from msgspec import Struct

from shared.bus import topology
from shared.bus.ports import Bus, Clock
from shared.errors import NoetlError
from shared.events import subjects
from shared.events.model import PlaybookProcessed
from shared.events.record import Record
from shared.events.stamp import stamp

log = structlog.get_logger()
MAX_REASON = 500  # characters
RETRY_S = (0.2, 0.5, 1.0, 2.0, 5.0)
SERVICES = (subjects.ROUTER, subjects.SCHEDULER)


class Aside(Struct, frozen=True):
    """`seq` is the last record of the execution that the service had; `at` when it gave up."""

    service: str
    reason: str
    seq: int
    at: str


def key(execution_id: str, service: str) -> str:
    return f"{execution_id}.{service}"


def why(error: BaseException) -> str:
    """For people: what went wrong; and where in the code, unless the error was raised on purpose."""
    text = "".join(char if char.isprintable() else " " for char in str(error)[: 2 * MAX_REASON])
    if isinstance(error, NoetlError):
        return text[:MAX_REASON]
    frames = extract_tb(error.__traceback__)
    where = f" ({PurePath(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}{where}: {text}"[:MAX_REASON]


async def read(bus: Bus, execution_id: str) -> list[Aside]:
    """Who has set an execution aside."""
    found = [await bus.kv_get(topology.ASIDE, key(execution_id, service)) for service in SERVICES]
    return [each for entry in found if entry is not None and (each := _decoded(entry.value)) is not None]


async def every(bus: Bus) -> dict[str, list[Aside]]:
    """By execution."""
    found: dict[str, list[Aside]] = {}
    for name, data in (await bus.kv_all(topology.ASIDE)).items():
        if (each := _decoded(data)) is not None:
            found.setdefault(name.rpartition(".")[0], []).append(each)
    return found


def is_end(record: Record) -> bool:
    """Nobody has to continue the execution now."""
    return record.writer == subjects.ROUTER and PlaybookProcessed in map(type, record.events)


def _decoded(data: bytes) -> Aside | None:
    try:
        return msgspec.json.decode(data, type=Aside)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


class Asides:
    """What one service has set aside in one partition."""

    def __init__(self, bus: Bus, clock: Clock, service: str, partition: int, partitions: int) -> None:
        self._bus, self._clock, self._service = bus, clock, service
        self._partition, self._partitions = partition, partitions
        self._there: set[str] = set()  # executions of which there may be an entry
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def known(self) -> list[str]:
        """Those with an entry; none if the broker does not answer."""
        try:
            names = await self._bus.kv_all(topology.ASIDE)
        except NoetlError as error:
            log.warning("aside.unknown", error=str(error))
            return []
        mine = [name.rpartition(".")[0] for name in names if name.endswith(f".{self._service}")]
        self._there = {each for each in mine if subjects.partition_of(each, self._partitions) == self._partition}
        return sorted(self._there)

    def add(self, execution_id: str, error: BaseException, seq: int) -> None:
        reason = why(error)
        log.error("execution.aside", execution_id=execution_id, service=self._service, seq=seq, reason=reason)
        entry = msgspec.json.encode(Aside(self._service, reason, seq, stamp(self._clock.now())))
        self._there.add(execution_id)
        name = key(execution_id, self._service)
        self._begin(execution_id, self._until_there(name, entry))

    def drop(self, execution_id: str) -> None:
        """The service continues it, or it is over."""
        if execution_id in self._there:
            self._there.discard(execution_id)
            log.info("execution.goes_on", execution_id=execution_id, service=self._service)
            self._begin(execution_id, self._until_there(key(execution_id, self._service), None))

    async def stop(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, execution_id: str, work: Coroutine[None, None, None]) -> None:
        """An entry of the same execution that is still on its way is out of date."""
        if (before := self._tasks.pop(execution_id, None)) is not None:
            before.cancel()
        task = self._tasks[execution_id] = asyncio.ensure_future(work)
        task.add_done_callback(lambda done: self._done(execution_id, done))

    def _done(self, execution_id: str, task: "asyncio.Task[None]") -> None:
        if self._tasks.get(execution_id) is task:
            del self._tasks[execution_id]

    async def _until_there(self, name: str, entry: bytes | None) -> None:
        tries = 0
        while True:
            try:
                if entry is None:
                    await self._bus.kv_delete(topology.ASIDE, name)
                else:
                    await self._bus.kv_put(topology.ASIDE, name, entry)
                return
            except NoetlError as error:
                pause = RETRY_S[min(tries, len(RETRY_S) - 1)]
                tries += 1
                log.warning("aside.waits", key=name, error=str(error), pause=pause)
                await self._clock.sleep(pause)
