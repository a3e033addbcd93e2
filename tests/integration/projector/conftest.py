"""One PostgreSQL for the folder, an empty schema per test."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from services.projector.database import connect
from services.projector.migrate import migrate
from shared.runtime import postgres
from tests.support.nats import admin, nats_server

__all__ = ["admin", "nats_server"]


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    try:
        yield postgres.start(folder)
    finally:
        postgres.stop(folder)
        shutil.rmtree(folder)


@pytest.fixture
async def dsn(server: str) -> str:
    """Of a database without a read model."""
    connection = await asyncpg.connect(server)
    await connection.execute("DROP SCHEMA IF EXISTS noetl CASCADE")
    await connection.close()
    return server


@pytest.fixture
async def db(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection to a database with an empty read model."""
    connection = await connect(dsn)
    await migrate(connection)
    yield connection
    await connection.close()
