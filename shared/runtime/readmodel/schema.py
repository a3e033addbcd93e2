"""Brings the schema `noetl` up to date: numbered .sql files, applied once, in order, under a lock.

A build may find files applied that it does not have: a later build has been there, before a rollback, or is there now,
in a rolling upgrade (ADR 50).

1. A file says in its first line which builds can still write what it leaves: `-- oldest: 7` means those whose own last
   file is 7 or later. Without that line, only builds that have the file can. It is kept in the database, where a build
   that does not have the file finds it.
2. A build that is not too old for any of those files writes as ever. One that is too old refuses, and says what to do.
3. What such a file has added stays empty in the rows of a build that does not have it. So that build marks the file as
   skipped. The next start of one that has it has nothing to do when defaults are enough; if the file says
   `-- oldest: 7, filled from the log`, the read model is emptied and written again.
4. A projector that was running already finds another version of the schema with its next batch (`store.py`), and comes
   here again before it writes. Files wait for the batches that are under way, so none is written in between.
"""

import re
from pathlib import Path

import asyncpg
from msgspec import Struct

from shared.errors import Refused
from shared.runtime.readmodel.event_types import fill
from shared.runtime.readmodel.statements import SQL

FOLDER = Path(__file__).parent / "migrations"
EMPTYING = frozenset({6, 8})  # after these nothing is left but the tables: the projector writes them again from the log
LOCK = 0x6E6F65746C  # "noetl": an advisory lock shared by every projector of a database

_RECORD = """
CREATE SCHEMA IF NOT EXISTS noetl;
CREATE TABLE IF NOT EXISTS noetl.schema_migration (
    version int PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now()
);
"""
# Not by IF NOT EXISTS alone: to alter a table, even for nothing, takes its owner.
_HAS_OLDEST = """
SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'noetl.schema_migration'::regclass AND attname = 'oldest')
"""
_OLDEST = "ALTER TABLE noetl.schema_migration ADD COLUMN oldest int, ADD COLUMN skipped boolean NOT NULL DEFAULT false"
_INSERT = "INSERT INTO noetl.schema_migration (version, name, oldest) VALUES ($1, $2, $3)"
_HEAD = re.compile(r"-- oldest: (\d+)(, filled from the log)?$")


class File(Struct, frozen=True):
    """`oldest` is the last file of the oldest build that can write after it; `fills`: what it adds is in the log."""

    version: int
    name: str
    text: str
    oldest: int
    fills: bool


class Applied(Struct, frozen=True):
    """What was done now: the names of files. `version` is what the database has, `later` whether that is of a later
    build. `emptied`: a read model was there, and is not now."""

    names: list[str]
    version: int
    later: bool
    emptied: bool


def migrations(folder: Path = FOLDER) -> dict[int, File]:
    """By their numbers."""
    return {file.version: file for file in map(_file, folder.glob("*.sql"))}


def _file(path: Path) -> File:
    version, text = int(path.name.split("_", 1)[0]), path.read_text()
    head = _HEAD.match(text.partition("\n")[0])
    return File(version, path.name, text, int(head[1]) if head else version, bool(head and head[2]))


async def migrate(connection: asyncpg.Connection, folder: Path = FOLDER) -> Applied:
    """All pending files, or none of them."""
    files = migrations(folder)
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        await connection.execute(_RECORD)
        if not await connection.fetchval(_HAS_OLDEST):
            await connection.execute(_OLDEST)
        rows = {row["version"]: row for row in await connection.fetch("SELECT * FROM noetl.schema_migration")}
        later = [row for version, row in rows.items() if version not in files]
        if later:
            _refuse_if_old(max(files), later)
            await _skip(connection, later)
        names, emptied = await _bring(connection, files, rows)
        if not later:
            await fill(connection)
    return Applied(names, max({*files, *rows}), bool(later), emptied)


def _refuse_if_old(own: int, later: list[asyncpg.Record]) -> None:
    needed = max(row["oldest"] if row["oldest"] is not None else row["version"] for row in later)
    if needed > own:
        raise Refused(
            f"the read model has schema version {max(row['version'] for row in later)}, which builds from version "
            f"{needed} on can write; this build is too old for it: it has {own}. Upgrade the projector again, or have "
            "it write a read model of its own from the log: DROP SCHEMA noetl CASCADE, and start it")


async def _skip(connection: asyncpg.Connection, later: list[asyncpg.Record]) -> None:
    mark = "UPDATE noetl.schema_migration SET skipped = true WHERE version = ANY ($1) AND NOT skipped"
    await connection.execute(mark, [row["version"] for row in later])


async def _bring(
    connection: asyncpg.Connection, files: dict[int, File], rows: dict[int, asyncpg.Record]
) -> tuple[list[str], bool]:
    """The names of the files applied now, and whether rows that were there are gone."""
    pending = [files[version] for version in sorted(files) if version not in rows]
    skipped = [files[version] for version, row in rows.items() if version in files and row["skipped"]]
    if pending and rows:
        await connection.execute("LOCK TABLE noetl.cursor IN EXCLUSIVE MODE")
    for file in pending:
        await connection.execute(file.text)
        await connection.execute(_INSERT, file.version, file.name, file.oldest)
    was_there = bool(rows)
    emptied = was_there and any(file.fills for file in (*pending, *skipped))
    if emptied:
        await connection.execute(SQL["truncate"])
    if skipped:
        await connection.execute("UPDATE noetl.schema_migration SET skipped = false WHERE skipped")
    return [file.name for file in pending], emptied or (was_there and any(file.version in EMPTYING for file in pending))
