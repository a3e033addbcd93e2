"""One PostgreSQL for the folder, an empty schema per test."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from shared.runtime.readmodel.database import connect
from shared.runtime.readmodel.schema import migrate
from tests.support.servers.nats import admin, nats_server
from tests.support.servers.postgres import postgres_dsn

__all__ = ["admin", "nats_server", "postgres_dsn"]


@pytest.fixture
async def dsn(postgres_dsn: str) -> str:
    """Of a database without a read model."""
    connection = await asyncpg.connect(postgres_dsn)
    await connection.execute("DROP SCHEMA IF EXISTS noetl CASCADE")
    await connection.close()
    return postgres_dsn


@pytest.fixture
async def db(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection to a database with an empty read model."""
    connection = await connect(dsn)
    await migrate(connection)
    yield connection
    await connection.close()
