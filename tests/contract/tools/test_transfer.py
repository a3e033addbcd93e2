"""`kind: transfer`, between real PostgreSQL, DuckDB and HTTP, and Snowflake as fakesnow answers for it."""

import asyncio
import time
from typing import Any

import asyncpg
import duckdb
import pytest
from aiohttp import web
from msgspec.structs import replace

from shared.dsl.templates.sql import Sql
from shared.tools.base.contract import Tool
from shared.tools.transfer import tool as transfer
from tests.support.calls import call
from tests.support.servers.snowflake import CREDENTIAL

POSTS = [{"id": n, "userId": n % 3, "title": f"it's {n}", "meta": {"tags": [n], "by": {"name": f"u{n}"}}}
         for n in range(1, 8)]


@pytest.fixture
def tool(opened) -> Tool:
    return opened("transfer")


@pytest.fixture
async def pg(database: str):
    connection = await asyncpg.connect(database)
    yield connection
    await connection.close()


@pytest.fixture
def posts(site) -> str:
    return site.on("/posts", lambda: web.json_response(POSTS))


def copy(source: dict[str, Any], target: dict[str, Any], **keys: Any):
    """A call; an `auth` of an end goes where the worker puts it."""
    ends = {"source": dict(source), "target": dict(target)}
    found = {f"{name}.auth": end.pop("auth") for name, end in ends.items() if "auth" in end}
    return replace(call({**ends, **keys}), credentials=found)


def at(database: str, **keys: Any) -> dict[str, Any]:
    return {"type": "postgres", "auth": {"dsn": database}, **keys}


def snowflake(**keys: Any) -> dict[str, Any]:
    return {"tool": "snowflake", "auth": CREDENTIAL, **keys}


async def test_an_http_answer_goes_into_the_columns_the_mapping_names(tool, pg, database, posts) -> None:
    await pg.execute("CREATE TABLE p (id serial PRIMARY KEY, post_id int, user_id int, title text, author text, "
                     "meta jsonb, at timestamptz DEFAULT now())")
    mapping = {"post_id": "id", "user_id": "userId", "title": "title", "author": "meta.by.name", "meta": "meta"}
    outcome = await tool.run(copy({"type": "http", "url": posts, "method": "GET"},
                                  at(database, table="public.p", mapping=mapping), chunk_size=3))
    assert outcome.error is None
    assert outcome.result == {"rows_read": 7, "rows_written": 7, "batches": 3, "columns": list(mapping)}
    rows = await pg.fetch("SELECT id, post_id, user_id, title, author, meta->'tags'->>0 AS tag FROM p ORDER BY id")
    assert [tuple(row) for row in rows] == [(n, n, n % 3, f"it's {n}", f"u{n}", str(n)) for n in range(1, 8)]


async def test_rows_may_lie_deeper_in_the_answer(tool, pg, database, site) -> None:
    await pg.execute("CREATE TABLE t (a int, b text)")
    url = site.on("/deep", lambda: web.json_response({"page": {"items": [{"a": 1}, {"b": "x"}]}}))
    target = at(database, table="t")
    assert (await tool.run(copy({"type": "http", "url": url, "path": "page.items"}, target))).error is None
    assert [tuple(row) for row in await pg.fetch("SELECT a, b FROM t ORDER BY a")] == [(1, None), (None, "x")]
    without = await tool.run(copy({"type": "http", "url": url}, target))
    assert (without.error["kind"], "source.path" in without.error["message"]) == ("config", True)


async def test_a_failed_request_is_the_outcome_and_the_target_stays_as_it_was(tool, pg, database, site) -> None:
    await pg.execute("CREATE TABLE t (a int); INSERT INTO t VALUES (1)")
    url = site.on("/down", lambda: web.json_response([], status=503))
    outcome = await tool.run(copy({"type": "http", "url": url}, at(database, table="t", mode="replace")))
    assert (outcome.error["kind"], outcome.error["retryable"], outcome.http["status"]) == ("http", True, 503)
    assert await pg.fetchval("SELECT count(*) FROM t") == 1


async def test_all_rows_or_none(tool, pg, database, posts) -> None:
    await pg.execute("CREATE TABLE t (id int CHECK (id < 5))")
    outcome = await tool.run(copy({"type": "http", "url": posts}, at(database, table="t", mapping={"id": "id"}),
                                  chunk_size=2))
    assert (outcome.error["kind"], outcome.pg["code"]) == ("postgres", "23514")
    assert outcome.error["message"].startswith("target: ")
    assert await pg.fetchval("SELECT count(*) FROM t") == 0


@pytest.mark.parametrize(("mode", "first"), [("replace", []), ("upsert", [(9, "old")])])
async def test_repeating_a_replace_or_an_upsert_changes_nothing(tool, pg, database, posts, mode, first) -> None:
    await pg.execute("CREATE TABLE t (id int PRIMARY KEY, title text); INSERT INTO t VALUES (1, 'old'), (9, 'old')")
    again = copy({"type": "http", "url": posts}, at(database, table="t", mode=mode, mapping={"id": "id",
                                                                                            "title": "title"}))
    for _ in range(2):
        assert (await tool.run(again)).error is None
        rows = [tuple(row) for row in await pg.fetch("SELECT id, title FROM t ORDER BY id")]
        assert rows == [(n, f"it's {n}") for n in range(1, 8)] + first


async def test_an_upsert_needs_something_to_tell_rows_apart(tool, pg, database, posts) -> None:
    await pg.execute("CREATE TABLE t (id int, title text)")
    target = at(database, table="t", mode="upsert", mapping={"title": "title"})
    outcome = await tool.run(copy({"type": "http", "url": posts}, target))
    assert (outcome.error["kind"], "needs key" in outcome.error["message"]) == ("config", True)
    outcome = await tool.run(copy({"type": "http", "url": posts}, {**target, "key": "id"}))
    assert "is among the columns" in outcome.error["message"]


async def test_a_field_or_column_that_is_not_there_is_named(tool, pg, database, posts) -> None:
    await pg.execute("CREATE TABLE t (id int)")
    outcome = await tool.run(copy({"type": "http", "url": posts}, at(database, table="t", mapping={"id": "ID"})))
    assert (outcome.error["kind"], "id, userId" in outcome.error["message"]) == ("config", True)
    outcome = await tool.run(copy({"type": "http", "url": posts}, at(database, table="t")))
    assert outcome.error["message"].startswith("the target's table has no column 'userId'; it has id")


@pytest.mark.usefixtures("snow")
async def test_snowflake_to_postgres_by_a_statement_of_the_author(tool, pg, database, opened) -> None:
    await opened("snowflake").run(call({"command": """
        CREATE TABLE TEST_DATA (id INTEGER, name STRING, value NUMERIC(10,2), created_at TIMESTAMP_TZ, doc VARIANT);
        INSERT INTO TEST_DATA SELECT 1, 'a%', 100.50, '2024-01-02 03:04:05+00:00', PARSE_JSON('{"k": [1]}')
        UNION ALL SELECT 2, NULL, 200.75, NULL, NULL"""}, auth=CREDENTIAL))
    await pg.execute("CREATE TABLE t (id int PRIMARY KEY, name text, value numeric(10, 2), at timestamptz, doc jsonb, "
                     "made text)")
    await pg.execute("INSERT INTO t (id, name) VALUES (1, 'old')")
    upsert = Sql("""INSERT INTO "t" (id, name, value, at, doc, made) VALUES (%s, %s, %s, %s, %s, $1) -- 100%s
        ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name || '%s', value = EXCLUDED.value, doc = EXCLUDED.doc""",
                 ["by us"])
    outcome = await tool.run(copy(snowflake(query="SELECT * FROM TEST_DATA ORDER BY id"),
                                  at(database, query=upsert), chunk_size="1"))
    assert outcome.error is None
    assert outcome.result["batches"] == 2
    rows = await pg.fetch("SELECT id, name, value::text, at::date::text, doc->'k'->>0, made FROM t ORDER BY id")
    assert [tuple(row) for row in rows] == [
        (1, "a%%s", "100.50", None, "1", None), (2, None, "200.75", None, None, "by us")]


@pytest.mark.usefixtures("snow")
async def test_postgres_to_snowflake_by_a_statement_of_the_author(tool, pg, database, opened) -> None:
    await pg.execute("CREATE TABLE s AS SELECT n AS id, 'r' || n AS label, n * 1.25 AS amount "
                     "FROM generate_series(1, 5) n")
    run = opened("snowflake").run
    await run(call({"command": "CREATE TABLE D (id INTEGER, label STRING, amount NUMERIC(10,2))"}, auth=CREDENTIAL))
    merge = """MERGE INTO D AS t USING (SELECT %s AS id, %s AS label, %s AS amount) AS s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET label = s.label, amount = s.amount
        WHEN NOT MATCHED THEN INSERT (id, label, amount) VALUES (s.id, s.label, s.amount)"""
    again = copy(at(database, query="SELECT * FROM s ORDER BY id"), snowflake(query=merge), chunk_size=2)
    for _ in range(2):
        assert (await tool.run(again)).error is None
    totals = "SELECT COUNT(*) AS N, SUM(amount) AS S, MAX(label) AS L FROM D"
    found = await run(call({"command": totals}, auth=CREDENTIAL))
    assert found.result["rows"] == [{"N": 5, "S": 18.75, "L": "r5"}]


@pytest.mark.usefixtures("snow")
async def test_postgres_to_a_table_of_snowflake_in_every_mode(tool, pg, database, opened) -> None:
    await pg.execute("""CREATE TABLE s AS SELECT n AS id, ('{"k": ' || n || '}')::jsonb AS doc, now() AS seen,
        '00000000-0000-0000-0000-000000000001'::uuid AS ref FROM generate_series(1, 3) n""")
    run = opened("snowflake").run
    made = "CREATE TABLE D (id INTEGER PRIMARY KEY, doc VARIANT, seen TIMESTAMP_TZ, ref STRING)"
    await run(call({"command": made}, auth=CREDENTIAL))
    source = at(database, query=Sql("SELECT * FROM s WHERE id <= $1", [2]))
    for mode in ("append", "upsert", "replace"):
        outcome = await tool.run(copy(source, snowflake(table="d", mode=mode)))
        assert outcome.error is None, mode
        found = await run(call({"command": "SELECT id, doc, ref FROM D ORDER BY id"}, auth=CREDENTIAL))
        assert found.result["rows"] == [
            {"ID": n, "DOC": {"k": n}, "REF": "00000000-0000-0000-0000-000000000001"} for n in (1, 2)], mode


@pytest.mark.usefixtures("snow")
async def test_what_snowflake_refuses_leaves_its_table_as_it_was(tool, database, opened) -> None:
    run = opened("snowflake").run
    await run(call({"command": "CREATE TABLE D (id INTEGER); INSERT INTO D VALUES (7)"}, auth=CREDENTIAL))
    source = at(database, query="SELECT CASE WHEN n < 4 THEN n::text ELSE 'x' END AS id FROM generate_series(1, 5) n")
    outcome = await tool.run(copy(source, snowflake(table="D", mode="replace"), chunk_size=2))
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("snowflake", False)
    assert (await run(call({"command": "SELECT id FROM D"}, auth=CREDENTIAL))).result["rows"] == [{"ID": 7}]


@pytest.mark.parametrize("mode", ["append", "upsert", "replace"])
async def test_postgres_to_duckdb_and_back(tool, pg, database, tmp_path, mode) -> None:
    await pg.execute("""CREATE TABLE s AS SELECT n AS id, n * 1.5 AS amount, now() AS seen, ARRAY[n, n] AS list,
        jsonb_build_object('k' || n, n) AS doc, '10.0.0.1'::inet AS ip FROM generate_series(1, 4) n""")
    await pg.execute("CREATE TABLE back (LIKE s)")
    file = str(tmp_path / "x.duckdb")
    with duckdb.connect(file) as made:
        made.execute("CREATE TABLE d (id int PRIMARY KEY, amount decimal(9, 2), seen timestamptz, list int[], "
                     "doc json, ip varchar)")
        if mode != "append":
            made.execute("INSERT INTO d (id) VALUES (1)")
    there = copy(at(database, query="SELECT * FROM s ORDER BY id"),
                 {"type": "duckdb", "database": file, "table": "main.d", "mode": mode}, chunk_size=3)
    assert (await tool.run(there)).error is None
    back = copy({"type": "duckdb", "database": file, "query": "SELECT * FROM d ORDER BY id"},
                at(database, table="back"))
    assert (await tool.run(back)).error is None
    assert await pg.fetchval("SELECT count(*) FROM (SELECT * FROM s EXCEPT SELECT * FROM back) AS d") == 0
    assert await pg.fetchval("SELECT count(*) FROM back") == 4


async def test_rows_with_one_key_in_one_batch_end_as_the_last_of_them(tool, database, tmp_path) -> None:
    file = str(tmp_path / "x.duckdb")
    with duckdb.connect(file) as made:
        made.execute("CREATE TABLE d (id int PRIMARY KEY, v text)")
    source = at(database, query="SELECT 1 AS id, 'v' || n AS v FROM generate_series(1, 3) n ORDER BY n")
    target = {"type": "duckdb", "database": file, "table": "d", "mode": "upsert"}
    assert (await tool.run(copy(source, target))).error is None
    with duckdb.connect(file) as made:
        assert made.execute("SELECT * FROM d").fetchall() == [(1, "v3")]


async def test_a_batch_is_all_that_is_held(tool, database, tmp_path, monkeypatch) -> None:
    sizes: list[int] = []
    rows = transfer.Picker.rows
    monkeypatch.setattr(transfer.Picker, "rows", lambda self, batch: sizes.append(len(batch.rows)) or rows(self, batch))
    file = str(tmp_path / "x.duckdb")
    with duckdb.connect(file) as made:
        made.execute("CREATE TABLE d (n int)")
    outcome = await tool.run(copy(at(database, query="SELECT n FROM generate_series(1, 2300) n"),
                                  {"type": "duckdb", "database": file, "table": "d"}))
    assert outcome.result["rows_written"] == 2300
    assert sizes == [1000, 1000, 300]


@pytest.mark.parametrize("change", [
    {"chunk_size": 0}, {"chunk_size": transfer.MAX_BATCH_ROWS + 1}, {"chunk_size": 5, "batch_size": 6},
    {"source": {"type": "ftp"}}, {"source": {}}, {"source": {"type": "postgres", "connection": "x", "query": "a; b"}},
    {"target": {"type": "http"}}, {"target": {"type": "duckdb", "table": "t"}},
    {"target": {"type": "postgres", "connection": "x"}},
    {"target": {"type": "postgres", "connection": "x", "table": "t", "query": "q"}},
    {"target": {"type": "postgres", "connection": "x", "table": "t", "mode": "guess"}},
    {"target": {"type": "postgres", "connection": "x", "query": "INSERT INTO t VALUES (%s)", "mode": "upsert"}},
    {"target": {"type": "snowflake", "table": "t"}}, {"source": {"type": "http", "url": "http://h/", "query": "q"}},
    {"source": {"type": "postgres", "connection": "x", "query": "SELECT 1", "url": "http://h/"}},
])
async def test_what_is_written_wrong_is_a_mistake_of_the_call(tool, change) -> None:
    right = {"source": {"type": "http", "url": "http://127.0.0.1:9/"},
             "target": {"type": "postgres", "connection": "postgresql://127.0.0.1:9/x", "table": "t"}}
    outcome = await tool.run(call({**right, **change}))
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("config", False)


async def test_a_query_takes_as_many_values_as_the_source_gives(tool, pg, database, posts) -> None:
    await pg.execute("CREATE TABLE t (a int, b int)")
    for query in ("INSERT INTO t VALUES (%s, %s, %s)", "INSERT INTO t VALUES ($3)", "INSERT INTO t VALUES (1, 2)"):
        outcome = await tool.run(copy({"type": "http", "url": posts},
                                      at(database, query=query, mapping={"a": "id", "b": "userId"})))
        assert outcome.error["kind"] == "config", query


async def test_the_auth_of_a_task_is_not_sent_to_an_end(tool, posts, database) -> None:
    task = copy({"type": "http", "url": posts}, at(database, table="t"))
    outcome = await tool.run(replace(task, auth={"username": "u", "password": "secret-1"}))
    assert outcome.error["kind"] == "config"


async def test_no_error_shows_a_credential_of_an_end(tool, posts) -> None:
    target = {"type": "postgres", "auth": {"dsn": "postgresql://u:open-sesame@127.0.0.1:9/open-sesame"}, "table": "t"}
    outcome = await tool.run(copy({"type": "http", "url": posts}, target))
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("connect", True)
    assert "sesame" not in str(outcome)


async def test_cancelled_it_ends_at_once_and_nothing_is_written(tool, pg, database) -> None:
    await pg.execute("CREATE TABLE t (n int)")
    slow = copy(at(database, query="SELECT 1 AS n FROM generate_series(1, 3) g, pg_sleep(0.2)"),
                at(database, table="t"), chunk_size=1)
    endless = copy(at(database, query="SELECT 1 AS n, pg_sleep(60)::text"), at(database, table="t", mapping={"n": "n"}))
    assert (await tool.run(slow)).result["rows_written"] == 3
    running = asyncio.create_task(tool.run(endless))
    await asyncio.sleep(0.3)
    started = time.monotonic()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert time.monotonic() - started < 4
    assert await pg.fetchval("SELECT count(*) FROM t") == 3


async def test_many_at_once_do_not_wait_for_each_other_in_circles(tool, pg, database) -> None:
    await pg.execute("CREATE TABLE t (n int)")
    one = copy(at(database, query="SELECT n FROM generate_series(1, 50) n"), at(database, table="t"), chunk_size=10)
    outcomes = await asyncio.gather(*(tool.run(one) for _ in range(12)))
    assert [outcome.error for outcome in outcomes] == [None] * 12
    assert await pg.fetchval("SELECT count(*) FROM t") == 600
