import time
from pathlib import Path
from tempfile import TemporaryDirectory

import asyncpg
import pytest

from shared.errors import Refused
from shared.runtime.embedded import postgres
from shared.runtime.embedded.postgres_roles import PROJECTOR


async def ask(dsn: str, query: str) -> object:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def test_an_embedded_server_keeps_its_data_over_a_restart() -> None:
    with TemporaryDirectory(prefix="pg") as name:
        folder = Path(name) / "data"
        try:
            server = postgres.start(folder)
            dsn = server.dsn(PROJECTOR)
            pid = postgres.pid_of(folder)
            assert pid is not None
            await ask(dsn, "CREATE TABLE noetl.kept AS SELECT 42 AS answer")
            assert postgres.start(folder) == server  # a running one is found
            assert postgres.pid_of(folder) == pid
            postgres.stop(folder)
            with pytest.raises(OSError, match="No such file"):
                await ask(dsn, "SELECT 1")
            began = time.monotonic()
            assert await ask(postgres.start(folder).dsn(PROJECTOR), "SELECT answer FROM noetl.kept") == 42
            assert time.monotonic() - began < 5
        finally:
            postgres.stop(folder)
        assert postgres.pid_of(folder) is None
        postgres.stop(folder)


def test_a_folder_that_cannot_hold_a_server_is_said_so() -> None:
    with TemporaryDirectory(prefix="pg") as name:
        (Path(name) / "PG_VERSION").write_text("9\n")
        with pytest.raises(Refused, match="was made by PostgreSQL 9"):
            postgres.start(Path(name))
