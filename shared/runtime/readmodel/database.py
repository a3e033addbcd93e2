"""The projector's one connection to PostgreSQL: shared in turns, and opened again whenever it is lost."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg
import structlog

from shared.runtime.readmodel.failures import CONFUSED, PASSING, reason

FIRST_RETRY_S = 0.1
LONGEST_RETRY_S = 5.0
COMMAND_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 10.0

MAX_CONFUSED = 5

T = TypeVar("T")
log = structlog.get_logger()


async def connect(dsn: str) -> asyncpg.Connection:
    # A commit lost in a crash takes its cursor along, so the log gives it again: no wait for the disk.
    settings = {"application_name": "noetl-projector", "synchronous_commit": "off", "jit": "off"}
    return await asyncpg.connect(
        dsn, timeout=CONNECT_TIMEOUT_S, command_timeout=COMMAND_TIMEOUT_S, server_settings=settings
    )


class Database:
    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.schema = 0  # the version it was seen to have last; 0: nobody has looked
        self._turn = asyncio.Lock()
        self._connection: asyncpg.Connection | None = None
        self._stuck: dict[object, str] = {}  # by the piece of work that waits

    def trouble(self) -> str:
        """Why nothing is written now, or nothing."""
        return next(iter(self._stuck.values()), "")

    async def run(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        """Until PostgreSQL answers. `work` is one transaction and may have been applied before."""
        this = object()
        try:
            return await self._until_done(work, this)
        finally:
            self._stuck.pop(this, None)

    async def _until_done(self, work: Callable[[asyncpg.Connection], Awaitable[T]], this: object) -> T:
        pause, confused = FIRST_RETRY_S, 0
        while True:
            try:
                async with self._turn:
                    return await self._attempt(work)
            except PASSING as error:
                why: Exception = error
            except CONFUSED as error:
                confused += 1
                if confused == MAX_CONFUSED:
                    raise
                why = error
            self._stuck[this] = reason(why)
            log.warning("projector.postgres_away", error=self._stuck[this], retry_in_s=pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_RETRY_S)

    async def _attempt(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        if self._connection is None or self._connection.is_closed():
            self._connection = await connect(self._dsn)
        try:
            return await work(self._connection)
        except CONFUSED as error:
            lost = self._connection.is_closed()
            self.close()
            if lost:
                raise ConnectionError(str(error)) from error
            raise
        except PASSING:
            self.close()
            raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
