"""Brings the schema `noetl` up to date: numbered .sql files, applied once, in order, under a lock."""

from pathlib import Path

import asyncpg

from shared.errors import Refused

FOLDER = Path(__file__).parent / "migrations"
LOCK = 0x6E6F65746C  # "noetl": an advisory lock shared by every projector of a database

_RECORD = """
CREATE SCHEMA IF NOT EXISTS noetl;
CREATE TABLE IF NOT EXISTS noetl.schema_migration (
    version int PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now()
);
"""


def migrations(folder: Path = FOLDER) -> dict[int, tuple[str, str]]:
    """Name and text of each file, by its number."""
    return {int(path.name.split("_", 1)[0]): (path.name, path.read_text()) for path in folder.glob("*.sql")}


async def migrate(connection: asyncpg.Connection) -> list[str]:
    """The names of the files applied now: all or none of them."""
    files = migrations()
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        await connection.execute(_RECORD)
        rows = await connection.fetch("SELECT version FROM noetl.schema_migration")
        applied = {row["version"] for row in rows}
        if unknown := applied - files.keys():
            raise Refused(f"the database has schema version {max(unknown)}: this build is too old for it")
        pending = [version for version in sorted(files) if version not in applied]
        for version in pending:
            name, text = files[version]
            await connection.execute(text)
            insert = "INSERT INTO noetl.schema_migration (version, name) VALUES ($1, $2)"
            await connection.execute(insert, version, name)
    return [files[version][0] for version in pending]
