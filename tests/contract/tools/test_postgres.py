"""`kind: postgres` against a real server."""

import asyncio
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest
from msgspec.structs import replace

from shared.dsl.templates.sql import Sql
from shared.tools.base import guard as running
from shared.tools.postgres import connections as pg_pools
from shared.tools.sql import call as sql_call
from tests.contract.tools.on_postgres import run
from tests.support.calls import call
from tests.support.waiting import until

__all__ = ["run"]


async def test_rows_come_as_mappings_with_their_columns(run) -> None:
    outcome = await run("SELECT g AS n, 'x' || g AS t FROM generate_series(1, 2) g")
    assert outcome.shape == "sql"
    assert outcome.result == {
        "rows": [{"n": 1, "t": "x1"}, {"n": 2, "t": "x2"}], "row_count": 2, "columns": ["n", "t"],
    }
    assert outcome.pg == {"code": None, "sqlstate": None}


async def test_a_query_without_rows_still_has_columns(run) -> None:
    assert (await run("SELECT 1 AS a WHERE false")).result == {"rows": [], "row_count": 0, "columns": ["a"]}


async def test_statements_without_rows_count_what_they_changed(run) -> None:
    assert (await run("CREATE TABLE t (a int)")).result["row_count"] == 0
    assert (await run("INSERT INTO t VALUES (1), (2), (3)")).result == {"rows": [], "row_count": 3, "columns": []}
    assert (await run("UPDATE t SET a = 9 WHERE a > 1")).result["row_count"] == 2
    assert (await run("DELETE FROM t RETURNING a")).result["row_count"] == 3


async def test_values_are_json_without_loss(run) -> None:
    outcome = await run("""SELECT 1.50::numeric AS short, 12345678901234567890.123456789::numeric AS long,
        7::numeric AS whole, 'NaN'::float8 AS nan, '2024-01-02T03:04:05Z'::timestamptz AS at, '2024-01-02'::date AS day,
        '1 month 2 days'::interval AS span, '00000000-0000-0000-0000-000000000001'::uuid AS id,
        'ab'::bytea AS raw, '{"a": [1]}'::jsonb AS doc, ARRAY['{"b": 1}'::json] AS docs, ARRAY[1, 2] AS list,
        ROW(1, 'x') AS record, '10.0.0.1'::inet AS ip, NULL AS nothing""")
    assert outcome.error is None
    assert outcome.result["rows"][0] | {"at": ""} == {
        "short": 1.5, "long": "12345678901234567890.123456789", "whole": 7, "nan": "NaN", "at": "",
        "day": "2024-01-02", "span": "1 mon 2 days", "id": "00000000-0000-0000-0000-000000000001",
        "raw": "YWI=", "doc": {"a": [1]}, "docs": [{"b": 1}], "list": [1, 2], "record": [1, "x"],
        "ip": "10.0.0.1", "nothing": None,
    }
    assert outcome.result["rows"][0]["at"] == "2024-01-02T03:04:05+00:00"


@pytest.mark.parametrize(("kind", "given", "back"), [
    ("text", 5, "5"), ("text", True, "true"), ("text", {"a": 1}, '{"a":1}'), ("int", "42", 42), ("int", 7.0, 7),
    ("bigint", None, None), ("numeric", 1.1, 1.1), ("numeric", "2.5", 2.5), ("float8", "1.5", 1.5),
    ("bool", "yes", True),
    ("bool", 0, False), ("timestamptz", "2024-01-02T03:04:05Z", "2024-01-02T03:04:05+00:00"),
    ("timestamptz", "2024-01-02", "2024-01-02T00:00:00+00:00"),
    ("timestamp", "2024-01-02T03:04:05+01:00", "2024-01-02T02:04:05"), ("date", "2024-01-02", "2024-01-02"),
    ("time", "03:04", "03:04:00"), ("interval", 90, "00:01:30"), ("interval", "2 hours", "02:00:00"),
    ("uuid", "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000001"),
    ("bytea", "YWI=", "YWI="), ("jsonb", {"a": [1]}, {"a": [1]}), ("jsonb", [1, 2], [1, 2]),
    ("jsonb", '{"t": 1}', {"t": 1}),
    ("jsonb", 3, 3), ("int[]", ["1", 2], [1, 2]), ("text[]", [1, "b"], ["1", "b"]), ("jsonb[]", [{"a": 1}], [{"a": 1}]),
    ("int[]", [[1, 2], [3, 4]], [[1, 2], [3, 4]]),
])
async def test_params_are_fitted_to_the_type_the_server_wants(run, kind, given, back) -> None:
    outcome = await run(f"SELECT $1::{kind} AS v", params=[given])
    assert outcome.error is None
    assert outcome.result["rows"] == [{"v": back}]


@pytest.mark.parametrize(("kind", "given"), [("int", "abc"), ("int", 1.5), ("timestamptz", "soon"), ("int[]", 3),
                                             ("bytea", "%%"), ("int2", 70000), ("uuid", "not-a-uuid")])
async def test_a_value_that_does_not_fit_is_a_data_error_that_does_not_show_it(run, kind, given) -> None:
    outcome = await run(f"SELECT $1::{kind}", params=[given])
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("postgres", False)
    assert outcome.pg["code"].startswith("22")
    assert len(str(given)) < 3 or str(given) not in outcome.error["message"]


async def test_a_rendered_command_brings_its_own_params(run) -> None:
    sql = Sql("CREATE TABLE t (a int, b text); INSERT INTO t VALUES ($1, $2); SELECT * FROM t WHERE b = $2 AND a = $1",
              [1, "it's"])
    assert (await run(sql)).result["rows"] == [{"a": 1, "b": "it's"}]


async def test_several_statements_are_one_transaction(run) -> None:
    await run("CREATE TABLE t (a int)")
    outcome = await run("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); SELECT 1/0")
    assert outcome.pg["code"] == "22012"
    assert (await run("SELECT count(*) AS n FROM t")).result["rows"] == [{"n": 0}]
    assert (await run("INSERT INTO t VALUES (1); SELECT count(*) AS n FROM t;")).result["rows"] == [{"n": 1}]


async def test_transactions_the_author_writes_are_his(run) -> None:
    created = "BEGIN; CREATE TABLE t (a int); COMMIT"
    outcome = await run(f"{created}; BEGIN; INSERT INTO t VALUES (1); ROLLBACK; SELECT * FROM t")
    assert outcome.result["rows"] == []
    left_open = await run("BEGIN; INSERT INTO t VALUES (5)")
    assert left_open.error is None
    assert (await run("SELECT * FROM t")).result["rows"] == []


async def test_a_command_that_cannot_be_in_a_transaction_runs_alone(run) -> None:
    assert (await run("VACUUM")).error is None


@pytest.mark.parametrize(("command", "state"), [(command, "25006") for command in (
    "WITH made AS (INSERT INTO t VALUES (2) RETURNING a) SELECT a FROM made", "SELECT nextval('s')",
    "SELECT a FROM t FOR UPDATE", "SELECT put()", "SELECT a INTO other FROM t",
    "EXPLAIN ANALYZE INSERT INTO t VALUES (2)",
)] + [("SELECT set_config('transaction_read_only', 'off', false); SELECT put()", "25001")])
async def test_what_writes_is_refused_by_the_server_in_a_call_that_only_reads(run, command: str, state: str) -> None:
    await run("CREATE TABLE t AS SELECT 1 AS a; CREATE SEQUENCE s")
    await run("CREATE FUNCTION put() RETURNS int LANGUAGE sql AS 'INSERT INTO t VALUES (2) RETURNING 1'")
    outcome = await run(command, {"read_only": True})
    assert outcome.pg["code"] == state, outcome.error
    assert (await run("VALUES (1); SELECT a FROM t", {"read_only": True})).result["rows"] == [{"a": 1}]
    assert (await run("INSERT INTO t VALUES (2)")).status == "ok"


@pytest.mark.parametrize("command", [
    "SET TRANSACTION READ WRITE; SELECT 1", "SELECT 1; COMMIT", "BEGIN", "CALL p()", "DO $$ BEGIN END $$",
    "DELETE FROM t", "COPY t TO PROGRAM 'cat'",
])
async def test_what_could_leave_the_transaction_is_not_sent_in_a_call_that_only_reads(run, command: str) -> None:
    outcome = await run(command, {"read_only": True})
    assert (outcome.error["kind"], "spec.read_only" in outcome.error["message"]) == ("config", True)


async def test_functions_with_semicolons_inside_are_one_statement(run) -> None:
    outcome = await run("""
        CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $f$ BEGIN PERFORM 1; RETURN 2; END; $f$;
        CREATE FUNCTION g() RETURNS int BEGIN ATOMIC SELECT 1; SELECT CASE WHEN true THEN 3 END; END;
        SELECT f() AS f, g() AS g -- the end; really
    """)
    assert outcome.error is None
    assert outcome.result["rows"] == [{"f": 2, "g": 3}]


async def test_a_table_takes_args_as_rows(run, opened, database) -> None:
    await run('CREATE SCHEMA s; CREATE TABLE s.t (id int, "Odd ""name" jsonb)')
    tool = opened("postgres")
    for args in ({"id": 1, 'Odd "name': {"a": 1}}, [{"id": 2}, {"id": 3}]):
        outcome = await tool.run(call({"table": "s.t", "args": args}, auth={"dsn": database}))
        assert outcome.error is None
    rows = (await run("SELECT * FROM s.t ORDER BY id")).result["rows"]
    assert [row["id"] for row in rows] == [1, 2, 3]
    assert rows[0]['Odd "name'] == {"a": 1}


async def test_errors_carry_their_sqlstate(run) -> None:
    await run("CREATE TABLE t (a int PRIMARY KEY)")
    outcome = await run("INSERT INTO t VALUES (1), (1)")
    assert outcome.pg == {"code": "23505", "sqlstate": "23505"}
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("postgres", False)
    assert (await run("SELEKT 1")).pg["code"] == "42601"


@pytest.mark.parametrize(("state", "retryable"), [("40001", True), ("40P01", True), ("57P01", True), ("53300", True),
                                                  ("08006", True), ("57014", False), ("P0001", False)])
async def test_which_errors_may_be_retried(run, state, retryable) -> None:
    outcome = await run(f"DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '{state}'; END $$")
    assert (outcome.pg["code"], outcome.error["retryable"]) == (state, retryable)


async def test_a_timeout_cancels_the_query_at_the_server(opened, database) -> None:
    tool = opened("postgres")
    outcome = await tool.run(call({"command": "SELECT pg_sleep(30)"}, auth={"dsn": database}, timeout_s=0.4))
    assert outcome.error["kind"] == "timeout"
    assert outcome.pg == {"code": None, "sqlstate": None}
    observer = await asyncpg.connect(database)
    active = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'"
    assert await observer.fetchval(active) == 0
    await observer.close()


async def test_a_cancelled_transaction_leaves_nothing(opened, run, database) -> None:
    await run("CREATE TABLE t (a int)")
    tool = opened("postgres")
    command = "INSERT INTO t VALUES (1); SELECT pg_sleep(30)"
    running = asyncio.create_task(tool.run(call({"command": command}, auth={"dsn": database})))
    await asyncio.sleep(0.4)
    running.cancel()
    await asyncio.wait({running})
    assert running.cancelled()
    assert (await run("SELECT * FROM t")).result["rows"] == []


class Freezer:
    """A way to the server that can stop passing anything on, as a broken network does."""

    def __init__(self, dsn: str) -> None:
        self._socket = parse_qs(urlsplit(dsn).query)["host"][0] + "/.s.PGSQL.5432"
        self.open = asyncio.Event()
        self.open.set()

    async def __aenter__(self) -> "Freezer":
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_unix_connection(self._socket)
        for pair in ((reader, up_writer), (up_reader, writer)):
            self._tasks.add(asyncio.create_task(self._pass_on(*pair)))

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                await self.open.wait()
                writer.write(data)
        finally:
            writer.close()


async def test_a_server_that_falls_silent_costs_no_connection_for_ever(opened, database, monkeypatch) -> None:
    monkeypatch.setattr(running, "STOP_GRACE_S", 0.5)
    tool = opened("postgres")
    async with Freezer(database) as way:
        auth = {"host": "127.0.0.1", "port": way.port, "user": "postgres", "database": urlsplit(database).path[1:]}

        async def run(command: str, timeout_s: float):
            return await tool.run(call({"command": command}, spec={"pool_size": 1}, auth=auth, timeout_s=timeout_s))

        assert (await run("SELECT 1", 10)).error is None
        asyncio.get_running_loop().call_later(0.2, way.open.clear)
        assert (await run("SELECT pg_sleep(0.4); SELECT 1", 0.6)).error["kind"] == "timeout"
        way.open.set()
        assert (await run("SELECT 1", 10)).error is None


async def test_no_server_is_a_connect_error_without_the_password(opened) -> None:
    auth = {"host": "127.0.0.1", "port": "1", "user": "u", "password": "pass-word", "database": "d"}
    outcome = await opened("postgres").run(call({"command": "SELECT 1"}, auth=auth))
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("connect", True)
    assert outcome.pg == {"code": None, "sqlstate": None}
    assert "pass-word" not in repr(outcome)


@pytest.mark.parametrize("auth", [
    {"host": "127.0.0.1", "port": "1", "user": "u", "password": "pass-word", "database": "dw"},
    {"dsn": "postgresql://u:pass-word@127.0.0.1:1/dw"},
    {"dsn": "postgresql://u:pass-word@/dw?host=127.0.0.1&port=1"},
])
async def test_a_database_that_cannot_be_reached_is_named_with_its_credential(opened, auth) -> None:
    asked = replace(call({"command": "SELECT 1"}, auth=auth), auth_name="warehouse")
    outcome = await opened("postgres").run(asked)
    assert outcome.error["message"].startswith("127.0.0.1:1 (credential warehouse): ")
    assert "pass-word" not in repr(outcome)


async def test_a_refused_login_names_the_database_and_the_credential(opened, database) -> None:
    asked = call({"command": "SELECT 1"}, auth={"dsn": database.replace("postgres:@", "nobody:@")})
    outcome = await opened("postgres").run(replace(asked, auth_name="warehouse"))
    assert "(credential warehouse): " in outcome.error["message"]
    assert "nobody" in outcome.error["message"]


async def test_a_refused_login_is_a_connect_error_that_is_not_retried(opened, database) -> None:
    nobody = database.replace("postgres:@", "nobody:@")
    outcome = await opened("postgres").run(call({"command": "SELECT 1", "dsn": nobody}))
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("connect", False)
    assert outcome.pg["code"] == "28000"


@pytest.mark.parametrize("connection", ["http://u:secret@h/x", "postgresql://u:p@h:secret/x", "secret"])
async def test_a_bad_connection_string_is_not_shown(opened, connection) -> None:
    outcome = await opened("postgres").run(call({"command": "SELECT 1", "connection": connection}))
    assert outcome.error["kind"] == "config"
    assert "secret" not in repr(outcome)


async def test_more_rows_than_the_limit_are_refused_before_they_are_held(run) -> None:
    outcome = await run(f"SELECT generate_series(1, {sql_call.ROW_LIMIT * 1000}) AS g")
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("limit", False)
    assert outcome.pg == {"code": None, "sqlstate": None}


async def test_more_bytes_than_the_limit_are_refused(run) -> None:
    outcome = await run("SELECT repeat('x', 100000) AS t FROM generate_series(1, 1000)")
    assert outcome.error["kind"] == "limit"


async def test_a_pool_never_has_more_connections_than_its_size(run) -> None:
    busy = "SELECT count(*) AS n, pg_sleep(0.1) FROM pg_stat_activity WHERE datname = current_database()"
    outcomes = await asyncio.gather(*(run(busy, _spec={"pool_size": 2}) for _ in range(6)))
    assert max(outcome.result["rows"][0]["n"] for outcome in outcomes) <= 2


async def test_the_longest_unused_pool_makes_room(opened, database, monkeypatch) -> None:
    monkeypatch.setattr(pg_pools, "MAX_POOLS", 2)
    tool = opened("postgres")
    for size in (1, 2, 3, 1):
        outcome = await tool.run(call({"command": "SELECT 1"}, spec={"pool_size": size}, auth={"dsn": database}))
        assert outcome.error is None
    observer = await asyncpg.connect(database)
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    try:
        await until(lambda: observer.fetchval(others), "a connection of each of two pools", so=lambda count: count == 2)
    finally:
        await observer.close()


async def test_a_connection_that_was_cut_is_retryable_and_then_replaced(run, database) -> None:
    observer = await asyncpg.connect(database)
    running = asyncio.create_task(run("SELECT pg_sleep(30)"))
    await asyncio.sleep(0.4)
    await observer.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'")
    await observer.close()
    outcome = await running
    assert outcome.error["retryable"]
    assert (await run("SELECT 1 AS a")).error is None


@pytest.mark.parametrize("config", [
    {"command": "SELECT $1"}, {"command": "SELECT 1", "query": "SELECT 2"}, {"command": "-- nothing"},
    {"command": "SELECT 1", "params": {"a": 1}}, {"command": 5}, {"table": "t"}, {"table": "t", "args": [1]},
])
async def test_a_call_that_makes_no_sense_is_not_sent(opened, database, config) -> None:
    outcome = await opened("postgres").run(call(config, auth={"dsn": database}))
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("config", False)


@pytest.mark.parametrize("command", ["COPY (SELECT 1) TO STDOUT", "COPY pg_class FROM STDIN"])
async def test_a_copy_through_the_connection_is_an_error(run, command) -> None:
    assert (await run(command)).error["kind"] == "config"
    assert (await run("SELECT 1")).status == "ok"
