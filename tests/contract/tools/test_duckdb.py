"""`kind: duckdb`, in memory and on a file."""

import asyncio
import subprocess
import sys
import time
from typing import Any

import pytest

from shared.dsl.templates.sql import Sql, render_sql
from shared.tools.sql import call as sql_call
from tests.support.calls import call


@pytest.fixture
def run(opened):
    tool = opened("duckdb")

    async def one(command: Any, _spec: dict[str, Any] | None = None, **config: Any):
        return await tool.run(call({"command": command, **config}, spec=_spec))

    return one


async def test_the_last_statement_gives_the_rows(run) -> None:
    outcome = await run("CREATE TABLE t AS SELECT range AS n FROM range(3); SELECT sum(n) AS s, 'a;b' AS t FROM t;")
    assert outcome.shape == "sql"
    assert outcome.result == {"rows": [{"s": 3, "t": "a;b"}], "row_count": 1, "columns": ["s", "t"]}


async def test_statements_without_rows_count_what_they_changed(run) -> None:
    made = "CREATE TABLE t (a int)"
    assert (await run(made)).result == {"rows": [], "row_count": 0, "columns": []}
    assert (await run(f"{made}; INSERT INTO t VALUES (1), (2)")).result == {"rows": [], "row_count": 2, "columns": []}
    assert (await run(f"{made}; INSERT INTO t VALUES (1) RETURNING a")).result["rows"] == [{"a": 1}]
    assert (await run("SELECT 5 AS \"Count\"")).result["rows"] == [{"Count": 5}]


async def test_values_are_json_without_loss(run) -> None:
    outcome = await run("""SELECT 1.50::decimal(10, 2) AS d, 'infinity'::double AS f,
        '2024-01-02 03:04:05+00'::timestamptz AS at, '2024-01-02'::date AS day,
        INTERVAL 90 SECOND AS span, 'ab'::blob AS raw, [1, 2] AS list, {'a': 1} AS struct,
        MAP {1: 'x'} AS map, '{"a": [1]}'::json AS doc, NULL::json AS none,
        '00000000-0000-0000-0000-000000000001'::uuid AS id""")
    assert outcome.error is None
    row = outcome.result["rows"][0]
    assert row.pop("at").startswith("2024-01-02T")
    assert row == {
        "d": 1.5, "f": "Infinity", "day": "2024-01-02", "span": 90.0, "raw": "YWI=", "list": [1, 2], "struct": {"a": 1},
        "map": {"1": "x"}, "doc": {"a": [1]}, "none": None, "id": "00000000-0000-0000-0000-000000000001",
    }


async def test_params_are_bound(run) -> None:
    assert (await run("SELECT $2 AS b, $1 AS a", params=[1, "x'y"])).result["rows"] == [{"b": "x'y", "a": 1}]
    command = "CREATE TABLE t (a int, j json); INSERT INTO t VALUES ($1, $2); SELECT j FROM t WHERE a = $1"
    sql = Sql(command, [1, {"k": [1]}])
    assert (await run(sql)).result["rows"] == [{"j": {"k": [1]}}]


async def test_the_same_expression_is_the_same_parameter(run) -> None:
    text = "SELECT id // {{ n }} AS part, {{ n }} * {{ n }} AS m FROM range(5) AS t(id) GROUP BY id // {{ n }}"
    assert (await run(render_sql(text, {"n": 5}))).result["rows"] == [{"part": 0, "m": 25}]


async def test_without_a_file_every_call_starts_empty(run) -> None:
    await run("CREATE TABLE t (a int)")
    assert (await run("SELECT * FROM t")).error["kind"] == "duckdb"


async def test_a_file_keeps_what_was_committed_and_only_that(run, tmp_path) -> None:
    file = str(tmp_path / "db.duckdb")
    assert (await run("CREATE TABLE t (a int)", database=file)).error is None
    broken = await run("INSERT INTO t VALUES (1); SELECT * FROM nowhere", database=file)
    assert (broken.error["kind"], broken.error["retryable"]) == ("duckdb", False)
    assert (await run("SELECT * FROM t", database=file)).result["rows"] == []
    await run("BEGIN; INSERT INTO t VALUES (2); COMMIT", database=file)
    assert (await run("SELECT * FROM t", database=file)).result["rows"] == [{"a": 2}]


async def test_calls_on_one_file_may_run_at_once(run, tmp_path) -> None:
    file = str(tmp_path / "db.duckdb")
    await run("CREATE TABLE t (a int)", database=file)
    outcomes = await asyncio.gather(*(run(f"INSERT INTO t VALUES ({n})", database=file) for n in range(6)))
    assert [outcome.error for outcome in outcomes] == [None] * 6
    assert (await run("SELECT count(*) AS n FROM t", database=file)).result["rows"] == [{"n": 6}]


def _hold(file: str) -> "subprocess.Popen[bytes]":
    """Another process that keeps the file open until its input is closed."""
    code = f"import duckdb, sys; c = duckdb.connect({file!r}); print('held', flush=True); sys.stdin.read()"
    holder = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    return holder


async def test_a_file_another_process_holds_may_be_retried(run, tmp_path) -> None:
    file = str(tmp_path / "db.duckdb")
    with await asyncio.to_thread(_hold, file):
        outcome = await run("SELECT 1", database=file)
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("duckdb", True)


async def test_memory_is_bounded(run) -> None:
    hungry = "SELECT list(range) AS l FROM range(20000000)"
    outcome = await run(hungry, _spec={"memory_limit": "20MB"})
    assert outcome.error["kind"] == "duckdb"
    assert "memory" in outcome.error["message"].lower()
    assert (await run("SELECT 1", _spec={"memory_limit": "lots"})).error["kind"] == "config"


async def test_the_variables_of_the_worker_are_no_tables(run) -> None:
    outcome = await run("SELECT * FROM prepared")
    assert outcome.error["kind"] == "duckdb"
    assert "Python" not in outcome.error["message"]


async def test_a_timeout_between_statements_stops_the_rest(opened) -> None:
    tool = opened("duckdb")
    slow = "SELECT count(*) FROM range(1000000000000) a, range(1000) b;"
    started = time.monotonic()
    outcome = await tool.run(call({"command": slow * 20}, timeout_s=0.3))
    assert outcome.error["kind"] == "timeout"
    assert time.monotonic() - started < 4


async def test_a_call_that_waits_for_a_thread_can_be_cancelled(opened) -> None:
    tool = opened("duckdb")
    slow = call({"command": "SELECT count(*) FROM range(1000000000000) a, range(1000) b"})
    running = [asyncio.create_task(tool.run(slow)) for _ in range(6)]
    await asyncio.sleep(0.3)
    for task in running:
        task.cancel()
    await asyncio.wait_for(asyncio.wait(running), 5)
    assert all(task.cancelled() for task in running)


async def test_more_rows_than_the_limit_are_refused(run) -> None:
    outcome = await run(f"SELECT * FROM range({sql_call.ROW_LIMIT * 100})")
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("limit", False)


async def test_a_table_takes_args_as_rows(run, opened, tmp_path) -> None:
    file = str(tmp_path / "db.duckdb")
    await run("CREATE TABLE t (id int, doc json)", database=file)
    outcome = await opened("duckdb").run(call({"table": "t", "args": {"id": 1, "doc": {"a": 1}}, "database": file}))
    assert outcome.error is None
    assert (await run("SELECT * FROM t", database=file)).result["rows"] == [{"id": 1, "doc": {"a": 1}}]
