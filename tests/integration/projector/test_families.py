"""Who is related to whom, and that one who lives, or is not known, keeps all of them."""

from datetime import UTC, datetime, timedelta

import asyncpg
import pytest
from msgspec import Struct

from shared.runtime.retention import families
from shared.runtime.retention.families import Families

NOW = datetime(2026, 6, 1, tzinfo=UTC)
OLD, YOUNG = NOW - timedelta(days=9), NOW - timedelta(days=1)
BEFORE = NOW - timedelta(days=5)
INSERT = """
INSERT INTO noetl.execution (execution_id, partition, started_at, updated_at, path, version, digest, status,
    finished_at, seq, trace_id, router_n, scheduler_n, controls, parent_id, rerun_of)
VALUES ($1, 0, $2, $2, 'p', '1', 'd', $3, $4, 1, '', 1, 1, 0, $5, $6)
"""


class Row(Struct):
    name: str
    parent: str | None = None
    rerun_of: str | None = None
    status: str = "completed"
    at: datetime | None = OLD


async def old(db: asyncpg.Connection, *rows: Row, among: list[str] | None = None) -> tuple[list[str], Families]:
    for row in rows:
        await db.execute(INSERT, row.name, OLD, row.status, row.at, row.parent, row.rerun_of)
    found = Families()
    return sorted(await found.old(db, among or [row.name for row in rows if row.at], BEFORE)), found


async def test_one_alone_goes_by_its_own_age(db: asyncpg.Connection) -> None:
    found, families_ = await old(db, Row("a"), Row("b", at=YOUNG), Row("c", status="failed"))
    assert found == ["a", "c"]
    assert families_.kept == {"b": "b"}


async def test_a_family_goes_as_a_whole_from_any_of_its_members(db: asyncpg.Connection) -> None:
    rows = (Row("top"), Row("child", "top"), Row("grandchild", "child"), Row("again", rerun_of="child"),
            Row("of_again", "again"))
    found, _ = await old(db, *rows, among=["of_again"])
    assert found == ["again", "child", "grandchild", "of_again", "top"]


@pytest.mark.parametrize("living", [
    Row("x", "grandchild", status="running", at=None),
    Row("x", "top", at=YOUNG),
    Row("x", rerun_of="grandchild", status="paused", at=None),
    Row("x", rerun_of="top", at=YOUNG),
])
async def test_one_that_lives_or_is_young_keeps_all(db: asyncpg.Connection, living: Row) -> None:
    rows = (Row("top"), Row("child", "top"), Row("grandchild", "child"), Row("other"))
    found, families_ = await old(db, *rows, living, among=["top", "child", "grandchild", "other"])
    assert found == ["other"]
    assert families_.kept == dict.fromkeys(("top", "child", "grandchild"), "x")


async def test_who_is_not_known_lives(db: asyncpg.Connection) -> None:
    found, families_ = await old(db, Row("child", "unseen"), Row("again", rerun_of="lost"))
    assert found == []
    assert families_.kept == {"child": "unseen", "again": "lost"}


async def test_a_family_is_given_once_in_a_pass(db: asyncpg.Connection) -> None:
    found, families_ = await old(db, Row("top"), Row("child", "top"), among=["top"])
    assert found == ["child", "top"]
    assert await families_.old(db, ["child", "top"], BEFORE) == []


async def test_a_family_beyond_the_limits_stays(db: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "MAX_FAMILY", 3)
    rows = [Row("top"), *(Row(f"c{number}", "top") for number in range(3))]
    found, families_ = await old(db, *rows)
    assert found == []
    assert set(families_.kept.values()) == {"more than 3 of one family"}
    monkeypatch.setattr(families, "MAX_DEPTH", 2)
    deep, kept = await old(db, Row("a"), Row("b", "a"), Row("c", "b"), among=["c"])
    assert deep == []
    assert kept.kept == {"c": "more than 2 above it"}
