import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import asyncpg
import pytest

from shared.errors import Refused
from shared.runtime.embedded import postgres
from shared.runtime.embedded.postgres_roles import PROJECTOR
from tests.support.waiting import until


async def ask(dsn: str, query: str) -> Any:
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


async def test_its_write_ahead_log_is_bounded() -> None:
    """Beyond it while much is written at once; as soon as less is, checkpoints bring it back."""
    fill = "INSERT INTO noetl.filler SELECT repeat(md5(n::text), 30) FROM generate_series(1, {}) AS n"
    with TemporaryDirectory(prefix="pg") as name:
        folder = Path(name) / "data"
        try:
            dsn = postgres.start(folder, postgres.LEAST_WAL_MB).dsn(PROJECTOR)
            assert await ask(dsn, "SHOW max_wal_size") == f"{postgres.LEAST_WAL_MB}MB"
            await ask(dsn, "CREATE TABLE noetl.filler (text text)")
            for _ in range(3):
                await ask(dsn, fill.format(80_000))
            written = await ask(dsn, "SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn) / 1048576")
            assert written > 3 * postgres.LEAST_WAL_MB

            async def left() -> float:
                await ask(dsn, fill.format(1_000))
                return await wal_mb(folder)

            await until(left, "it is within the limit", 60, so=lambda mb: mb <= postgres.LEAST_WAL_MB)
        finally:
            postgres.stop(folder)


async def wal_mb(folder: Path) -> float:
    return sum(file.stat().st_size for file in (folder / "pg_wal").iterdir() if file.is_file()) / 1_048_576


def test_a_folder_that_cannot_hold_a_server_is_said_so() -> None:
    with TemporaryDirectory(prefix="pg") as name:
        (Path(name) / "PG_VERSION").write_text("9\n")
        with pytest.raises(Refused, match="was made by PostgreSQL 9"):
            postgres.start(Path(name))
