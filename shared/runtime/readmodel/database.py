"""The projector's one connection to PostgreSQL: taken in turns, made again whenever it is lost."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg
import structlog

FIRST_RETRY_S = 0.1
LONGEST_RETRY_S = 5.0
COMMAND_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 10.0

# PostgreSQL is away, restarting, overloaded or full: it will be back.
AWAY = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.TransactionRollbackError,
    asyncpg.LockNotAvailableError,
)

# The client's own complaints. A statement or rollback on a connection that is just breaking looks like
# a misuse of the client, so these are tried again on a new connection, a few times.
CONFUSED = (asyncpg.InterfaceError, asyncpg.InternalClientError)
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
        self._turn = asyncio.Lock()
        self._connection: asyncpg.Connection | None = None

    async def run(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        """Until PostgreSQL answers. `work` is one transaction and may have been applied before."""
        pause, confused = FIRST_RETRY_S, 0
        while True:
            try:
                async with self._turn:
                    return await self._attempt(work)
            except AWAY as error:
                why: Exception = error
            except CONFUSED as error:
                confused += 1
                if confused == MAX_CONFUSED:
                    raise
                why = error
            log.warning("projector.postgres_away", error=str(why) or repr(why), retry_in_s=pause)
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
        except AWAY:
            self.close()
            raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
