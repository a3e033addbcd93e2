"""Keeps the embedded PostgreSQL running: started again when it ended, and reported when it does not answer. One that is
there and silent is left alone: it may be replaying its log, or somebody has stopped it on purpose. One that was told to
end waits for its clients, of which the projector stays: it is told not to wait, and started again."""

import asyncio
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import structlog

from shared.errors import Unavailable
from shared.runtime.embedded import postgres
from shared.runtime.embedded.postgres_roles import READER
from shared.runtime.service.supervisor import sleep_or_stop, supervise

NAME = "PostgreSQL"
POLL_S = 0.2
ASK_EVERY_S = 2.0
ASK_S = 5.0
SILENT_S = 10.0  # without an answer; then it is reported
SAY_EVERY_S = 30.0
ENDING_S = 3.0  # for its clients to leave
ENDING = "shutting down"

log = structlog.get_logger()


class PostgresKeeper:
    """`server` is the one that was started; its address stays the same from start to start."""

    def __init__(
        self, folder: Path, server: postgres.Server, stop: asyncio.Event, wal_mb: int = postgres.WAL_MB
    ) -> None:
        self._folder, self._server, self._stop, self._wal_mb = folder, server, stop, wal_mb
        self.recovering = False  # it answers that it is still starting
        self._answered = time.monotonic()
        self._said = 0.0
        self._ending_since = 0.0

    async def keep(self) -> None:
        await supervise(NAME, self.life, self._stop)

    async def life(self) -> None:
        """Until the server has ended."""
        server = await asyncio.to_thread(postgres.start, self._folder, self._wal_mb)
        if server != self._server:
            raise Unavailable(f"its socket is in {server.socket} now: stop `noetlctl up` and start it again")
        pid = postgres.pid_of(self._folder)
        asked = 0.0
        while pid is not None and not self._stop.is_set():
            if time.monotonic() - asked > ASK_EVERY_S:
                await self._look(pid)
                asked = time.monotonic()
            await sleep_or_stop(self._stop, POLL_S)
            if not postgres.alive(pid):
                raise Unavailable(f"PostgreSQL ended (process {pid})")

    async def _look(self, pid: int) -> None:
        error = await self._ask()
        now = time.monotonic()
        if self._ends(error, now):
            log.warning("stack.ends", child=NAME, pid=pid, error=error)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)  # without waiting for clients
            return
        if not error:
            if self._said:
                log.info("stack.answers", child=NAME, pid=pid, after_s=round(now - self._answered, 1))
            self._answered, self._said = now, 0.0
        elif now - max(self._answered + SILENT_S, self._said + SAY_EVERY_S) > 0 and postgres.alive(pid):
            self._said = now
            log.error("stack.no_answer", child=NAME, pid=pid, error=error, for_s=round(now - self._answered, 1),
                      fix="nothing, if it is starting: it goes on by itself; a frozen one is started anew after "
                          f"`kill -9 {pid}`")  # fmt: skip

    def _ends(self, error: str, now: float) -> bool:
        """It has said for long enough that it is about to end."""
        if ENDING not in error:
            self._ending_since = 0.0
            return False
        self._ending_since = self._ending_since or now
        return now - self._ending_since >= ENDING_S

    async def _ask(self) -> str:
        """What is wrong, or nothing. One that turns us away for another reason than its start does answer."""
        import asyncpg  # late: a short run ends before

        self.recovering = False
        try:
            connection = await asyncpg.connect(self._server.dsn(READER), timeout=ASK_S)
        except asyncpg.CannotConnectNowError as error:
            self.recovering = ENDING not in str(error)
            return str(error)
        except asyncpg.PostgresError:
            return ""
        except (OSError, asyncpg.InterfaceError) as error:  # a TimeoutError is an OSError
            return str(error) or f"no answer within {ASK_S:g} s"
        connection.terminate()
        return ""
