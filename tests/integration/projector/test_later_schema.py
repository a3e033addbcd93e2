"""A build on the read model of a later one, as after a rollback: it writes, or says why it cannot; the later one finds
its read model whole (ADR 50)."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest
import structlog

from services.projector.service import serve
from shared.errors import Refused
from shared.runtime.readmodel import schema
from shared.runtime.readmodel.live_rows import LiveRows
from shared.runtime.readmodel.schema import migrate, migrations
from shared.runtime.readmodel.store import Moved, project
from shared.runtime.service.settings import Settings
from tests.integration.projector.history import PARTITIONS, Log, random_log
from tests.integration.projector.tables import dump, folded
from tests.integration.projector.test_service import all_projected, serving

NOW = max(migrations())
COLUMN = "ALTER TABLE noetl.execution ADD COLUMN later text NOT NULL DEFAULT 'as ever';\n"
Later = Callable[[str], Path]


@pytest.fixture
def later(tmp_path: Path) -> Later:
    """The files of a later build: those of this one, and one that begins with the line."""

    def files(head: str) -> Path:
        folder = tmp_path / "migrations"
        shutil.copytree(schema.FOLDER, folder)
        (folder / f"{NOW + 1:04}_later.sql").write_text(f"{head}\n{COLUMN}")
        return folder

    return files


async def written(log: Log, dsn: str, db: asyncpg.Connection) -> list[str]:
    """What a projector of this build warns of while it writes the log."""
    with structlog.testing.capture_logs() as said:
        async with serving(log, dsn):
            await all_projected(db, log)
    return [line["event"] for line in said if line["log_level"] == "warning"]


def go_on(log: Log, seed: int) -> None:
    """More comes."""
    more = random_log(seed)
    for partition in range(PARTITIONS):
        for message in more.messages(partition):
            log.write_raw(partition, message.subject, message.data)


@pytest.mark.parametrize(("head", "is_filled"), [
    (f"-- oldest: {NOW}", False), (f"-- oldest: {NOW}, filled from the log", True), (f"-- oldest: {NOW - 1}", False),
])
async def test_this_build_writes_what_a_later_one_left_if_it_may(
    dsn: str, db: asyncpg.Connection, later: Later, head: str, is_filled: bool
) -> None:
    folder = later(head)
    found = await migrate(db, folder)
    assert (found.names, found.version, found.later) == ([f"{NOW + 1:04}_later.sql"], NOW + 1, False)
    log = random_log(5)
    assert await written(log, dsn, db) == ["projector.later_schema"]
    back = await migrate(db, folder)
    assert (back.names, back.emptied) == ([], is_filled), "what this build did not write is written again"
    assert await db.fetchval("SELECT count(*) FROM noetl.cursor") == (0 if is_filled else PARTITIONS)
    assert not (await migrate(db, folder)).emptied, "once"
    assert await written(log, dsn, db) == ["projector.later_schema"]
    usual = await db.fetchval("SELECT count(*) FROM noetl.execution WHERE later = 'as ever'")
    await db.execute("ALTER TABLE noetl.execution DROP COLUMN later")  # which the fold of this build does not know
    wanted = await folded(db, log)
    assert await dump(db) == wanted
    assert usual == len(wanted["execution"]) > 0


@pytest.mark.parametrize("head", ["-- Another read model.", f"-- oldest: {NOW + 1}"])
async def test_one_that_is_too_old_says_so_and_what_to_do(db: asyncpg.Connection, later: Later, head: str) -> None:
    await migrate(db, later(head))
    words = rf"{NOW + 1} on can write; this build is too old for it: it has {NOW}. Upgrade .* DROP SCHEMA noetl CASCADE"
    with pytest.raises(Refused, match=rf"version {NOW + 1}, which builds from version {words}"):
        await migrate(db)
    assert await db.fetchval("SELECT count(*) FROM noetl.schema_migration WHERE skipped") == 0


async def test_one_that_runs_already_looks_before_it_writes(db: asyncpg.Connection, later: Later) -> None:
    log = random_log(3)
    batch = log.messages(0)
    await migrate(db, later(f"-- oldest: {NOW}, filled from the log"))
    with pytest.raises(Moved, match=f"the schema has version {NOW + 1}, not {NOW}"):
        await project(db, 0, PARTITIONS, batch, 0, LiveRows(), NOW)
    assert await db.fetchval("SELECT count(*) FROM noetl.execution") == 0


async def test_a_projector_that_was_there_before_goes_on_and_marks_what_it_skips(
    dsn: str, db: asyncpg.Connection, later: Later
) -> None:
    log = random_log(6)
    async with serving(log, dsn):
        await all_projected(db, log)
        folder = later(f"-- oldest: {NOW}, filled from the log")
        assert (await migrate(db, folder)).emptied, "those rows have nothing of it"
        go_on(log, 7)
        await all_projected(db, log)
    assert await db.fetchval("SELECT skipped FROM noetl.schema_migration WHERE version = $1", NOW + 1)
    assert (await migrate(db, folder)).emptied


async def test_one_that_was_there_before_and_is_too_old_ends(dsn: str, db: asyncpg.Connection, later: Later) -> None:
    log, stop = random_log(4), asyncio.Event()
    task = asyncio.create_task(serve(log.bus, Settings(postgres_dsn=dsn, partitions=PARTITIONS), stop=stop))
    await all_projected(db, log)
    await migrate(db, later("-- Another read model."))
    go_on(log, 8)
    with pytest.raises(Refused, match="too old"):
        await asyncio.wait_for(task, 30)
