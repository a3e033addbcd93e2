"""The rows in which records are kept: one for all that a batch has of an execution, and nothing in them that PostgreSQL
cannot read as jsonb when somebody asks."""

import asyncpg
import msgspec
import pytest

from shared.answers.readmodel.entry import read
from shared.answers.readmodel.fold import fold
from shared.answers.readmodel.rows import MAX_GROUP_BYTES, Rows
from shared.answers.readmodel.tables import KEYS, differences, tables
from shared.events import model as ev
from shared.events import subjects
from shared.events.record import encode
from shared.runtime.readmodel.store import project
from tests.integration.projector.history import Log, Story, lease, page
from tests.integration.projector.tables import dump, folded

GROUPS = "SELECT execution_id, seq, jsonb_array_length(records::jsonb) AS n FROM noetl.record_group ORDER BY seq"


def story(execution_id: str) -> Story:
    found = Story(execution_id)
    found.begin()
    found.schedule("fetch")
    found.worker(lease(), ev.StepStarted(), *page(1))
    return found


def woven(*stories: Story) -> Log:
    log = Log(1)
    for records in zip(*(each.records for each in stories), strict=True):
        for record in records:
            log.write(record)
    return log


async def test_a_batch_leaves_one_row_for_each_execution(db: asyncpg.Connection) -> None:
    log = woven(story("a"), story("b"))
    await project(db, 0, 1, log.messages(0)[:4], 0)
    await project(db, 0, 1, log.messages(0)[4:], 4)
    assert [tuple(row) for row in await db.fetch(GROUPS)] == [("a", 1, 2), ("b", 2, 2), ("a", 5, 1), ("b", 6, 1)]
    shown = await db.fetch("SELECT seq, execution_id, writer, n, epoch_ns, epoch_try, lease_index, step_run_id "
                           "FROM noetl.record ORDER BY seq")
    assert [tuple(row) for row in shown[2:5]] == [
        (3, "a", "router", 6, None, None, None, None), (4, "b", "router", 6, None, None, None, None),
        (5, "a", "worker", 1, 10, 1, -1, "fetch:1"),
    ]
    assert await dump(db) == await folded(db, log)


async def test_a_row_has_an_end(db: asyncpg.Connection) -> None:
    found = story("a")
    for number in range(4):
        found.router(ev.CtxPatched("fetch:1", {"large": f"{number}" * (MAX_GROUP_BYTES // 2)}))
    log = woven(found)
    await project(db, 0, 1, log.messages(0), 0)
    assert [row["n"] for row in await db.fetch(GROUPS)] == [5, 2]
    assert await dump(db) == await folded(db, log)


HARD = [
    rb'"\u0000"',
    rb'"\\u0000\u0000\\\\u0000"', rb'"\ud83d\ude00\uffff\u2028"', b'"\x7f\xc2\x80"', b"1" + b"0" * 400, b"-0.0",
    b"1e308", b"5e-324", b"1e-20000", b"0." + b"0" * 20_000 + b"1", b'{"a":1,"a":2,"":{"\\u0000":[]}}',
    b"[" * 200 + b"]" * 200, b'"' + b"x" * 300_000 + b'"',
]  # fmt: skip


@pytest.mark.parametrize("value", HARD, ids=range(len(HARD)))
async def test_whatever_a_log_may_hold_can_be_read_as_jsonb(db: asyncpg.Connection, value: bytes) -> None:
    found = story("a")
    found.router(ev.CtxPatched("fetch:1", {"k": "HERE"}))
    log, data = Log(1), encode(found.records[-1]).replace(b'"HERE"', value)
    assert value in data
    log.write_raw(0, subjects.event(0, "a", "router"), data.replace(b'"n":7', b'"n":1'))
    await project(db, 0, 1, log.messages(0), 0)
    assert await db.fetchval("SELECT count(*) FROM noetl.corrupt") == 0
    payload = await db.fetchval("SELECT payload FROM noetl.event")
    assert list(msgspec.json.decode(payload)["patch"]) == ["k"]
    rows = Rows()
    fold(rows, read(log.messages(0)[0], 1))
    shown = {table: [dict(row) for row in await db.fetch(f"SELECT * FROM noetl.{table}")] for table in KEYS}
    assert list(differences(tables(rows), shown)) == []


@pytest.mark.parametrize("ts", ["2026-W46-3T20:13:05.979960Z", "20261118T201305Z", "2026-11-18 20:13:05,5+00:00"])
async def test_a_time_is_kept_however_it_is_written(db: asyncpg.Connection, ts: str) -> None:
    found = story("a")
    log = Log(1)
    data = encode(found.records[0])
    log.write_raw(0, subjects.event(0, "a", "router"), data.replace(found.records[0].ts.encode(), ts.encode()))
    await project(db, 0, 1, log.messages(0), 0)
    assert await dump(db) == await folded(db, log)
