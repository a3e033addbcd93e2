"""SQL as people write it: rendered as a worker does it, then run on a real server."""

import asyncio
from typing import Any
from urllib.parse import urlsplit

import pytest

from shared.dsl.templates.evaluate import render_sql
from shared.dsl.templates.result_view import view
from shared.events.outcome import Outcome, Result
from shared.tools.base.contract import ToolOptions
from shared.tools.duckdb import extensions as duck_extensions
from shared.tools.registry import open_tool
from shared.tools.sql import call as sql_call
from tests.support.calls import call


@pytest.fixture
def run(opened, database: str):
    tool = opened("postgres")

    async def one(command: str, names: dict[str, Any] | None = None, **config: Any) -> Outcome:
        rendered = {"command": render_sql(command, names or {})} if command else {}
        return await tool.run(call({**rendered, **config}, auth={"dsn": database}))

    return one


async def _rows(run, command: str, names: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    outcome = await run(command, names)
    assert outcome.error is None, outcome.error
    return outcome.result["rows"]


async def test_a_literal_with_outputs_is_one_value(run) -> None:
    names = {"id": 7, "city": "Côte d'Or'; DROP TABLE t; --", "n": 3}
    rows = await _rows(run, """
        CREATE TABLE t (id text, doc jsonb, at timestamptz, n int);
        INSERT INTO t VALUES ('{{ id }}:{{ city }}', '{"a": "{{ id }}"}'::jsonb,
                              now() - interval '{{ n }} days', '1{{ n }}');
        SELECT id, doc, n, at < now() - INTERVAL '{{ n - 1 }}' DAY AS old FROM t WHERE id LIKE '%{{ city }}'""", names)
    assert rows == [{"id": f"7:{names['city']}", "doc": {"a": "7"}, "n": 13, "old": True}]


async def test_a_value_in_the_place_of_a_name_is_that_name_and_nothing_more(run) -> None:
    for table in ("plain", "Mixed Case", 'quo"ted', "x; DROP TABLE t"):
        rows = await _rows(run, """
            DROP TABLE IF EXISTS public.{{ t }};
            CREATE TABLE public.{{ t }} (id SERIAL PRIMARY KEY, profile JSONB DEFAULT '{}'::jsonb);
            CREATE INDEX idx_{{ t }}_profile ON public.{{ t }} USING GIN (profile);
            INSERT INTO {{ t }} (profile) VALUES ('{"a": 1}');
            UPDATE public.{{ t }} SET profile = profile || '{"b": true}'::jsonb WHERE id = 1;
            SELECT profile FROM {{ t }} WHERE profile->>'a' = '{{ one }}'""", {"t": table, "one": 1})
        assert rows == [{"profile": {"a": 1, "b": True}}]


async def test_a_command_may_be_the_value_of_an_expression(run) -> None:
    names = {"made": {"sql": ["CREATE TABLE t (a int);", "INSERT INTO t VALUES (1), (2);"]}}
    assert (await run("{{ made.sql | join('\n') }}", names)).error is None
    assert await _rows(run, "SELECT count(*) AS n FROM t") == [{"n": 2}]


async def test_quotes_doubled_by_hand_are_stored_once(run) -> None:
    template = """{% for item in items %}
        INSERT INTO t VALUES ('{{ item | tojson | replace("'", "''") }}'::jsonb);
        {% endfor %}"""
    await _rows(run, "CREATE TABLE t (doc jsonb)")
    await _rows(run, template, {"items": [{"a": "it's"}, {"a": "b"}]})
    assert await _rows(run, "SELECT doc->>'a' AS a FROM t ORDER BY 1") == [{"a": "b"}, {"a": "it's"}]


async def test_statements_that_take_no_parameters_get_their_values(run) -> None:
    names = {"text": "it's \\ a note", "n": -3}
    rows = await _rows(run, """
        CREATE TABLE t (a text DEFAULT '{{ text }}', n int DEFAULT {{ n }});
        COMMENT ON TABLE t IS '{{ text }}';
        CREATE VIEW v AS SELECT 1 - {{ n }} AS four;
        INSERT INTO t DEFAULT VALUES;
        SELECT a, n, four, obj_description('t'::regclass) AS note FROM t, v""", names)
    assert rows == [{"a": names["text"], "n": -3, "four": 4, "note": names["text"]}]


async def test_what_cannot_be_in_a_transaction_runs_without_one(run, database: str) -> None:
    name = urlsplit(database).path[1:] + "_more"
    outcome = await run("CREATE TABLE t (a int); CREATE DATABASE {{ name }}; DROP DATABASE {{ name }}; "
                        "CREATE INDEX CONCURRENTLY i ON t (a); VACUUM t; SELECT 1 AS one", {"name": name})
    assert outcome.error is None, outcome.error
    assert outcome.result["rows"] == [{"one": 1}]


async def test_upsert_inserts_once_and_updates_then(run) -> None:
    await _rows(run, "CREATE TABLE t (id text PRIMARY KEY, n int, doc jsonb)")
    for n in (1, 2):
        args = [{"id": "a", "n": n, "doc": {"n": n}}, {"id": f"b{n}", "n": n, "doc": None}]
        outcome = await run("", table="public.t", mode="upsert", key="id", args=args)
        assert outcome.error is None, outcome.error
    assert await _rows(run, "SELECT id, n, doc FROM t ORDER BY id") == [
        {"id": "a", "n": 2, "doc": {"n": 2}}, {"id": "b1", "n": 1, "doc": None}, {"id": "b2", "n": 2, "doc": None}]
    outcome = await run("", table="t", args={"id": "a"})
    assert outcome.pg["code"] == "23505"


async def test_with_changes_fields_of_the_credential(run) -> None:
    outcome = await run("SELECT current_database() AS d", **{"with": {"db_name": "postgres"}})
    assert outcome.error is None, outcome.error
    assert outcome.result["rows"] == [{"d": "postgres"}]


async def test_a_pool_bounds_its_connections_and_who_waits(run) -> None:
    pool = {"name": "shared", "max_size": 1, "min_size": 1, "timeout": 10, "max_waiting": 1}
    slow = [asyncio.create_task(run("SELECT pg_backend_pid() AS pid FROM pg_sleep(0.3)", pool=pool)) for _ in range(2)]
    await asyncio.sleep(0.1)
    refused = await run("SELECT 1", pool=pool)
    assert (refused.error["kind"], refused.error["retryable"]) == ("connect", True)
    assert "wait" in refused.error["message"]
    first, second = [await each for each in slow]
    assert first.result["rows"] == second.result["rows"]


async def test_a_call_waits_no_longer_than_its_pool_says(run) -> None:
    pool = {"max_size": 1, "timeout": 0.1}
    slow = asyncio.create_task(run("SELECT 1 FROM pg_sleep(2)", pool=pool))
    await asyncio.sleep(0.2)
    late = await run("SELECT 1", pool=pool)
    assert (late.error["kind"], late.error["retryable"]) == ("connect", True)
    assert "0.1 s" in late.error["message"]
    assert (await slow).error is None


@pytest.mark.parametrize("pool", [{"max_size": 0}, {"max_size": 65}, {"max_size": 1, "min_size": 2}, {"timeout": 0},
                                  {"max_waiting": -1}, {"max_size": True}, "big"])
async def test_a_pool_outside_its_limits_is_a_mistake(run, pool: Any) -> None:
    assert (await run("SELECT 1", pool=pool)).error["kind"] == "config"


# -- DuckDB


@pytest.fixture
def duck(opened):
    tool = opened("duckdb")

    async def one(command: str, names: dict[str, Any] | None = None, auth: Any = None, **config: Any) -> Outcome:
        return await tool.run(call({"command": render_sql(command, names or {}), **config}, auth=auth))

    return one


async def test_duckdb_reads_and_writes_files_whose_names_are_templates(duck, tmp_path) -> None:
    names = {"folder": str(tmp_path), "file": "it's here"}
    outcome = await duck("""
        CREATE TABLE t AS SELECT '{{ file }}' AS name, '{{ file }}' || '{{ file }}!' AS twice;
        COPY t TO '{{ folder }}/{{ file }}.parquet' (FORMAT PARQUET);
        SELECT name, twice FROM '{{ folder }}/{{ file }}.parquet'""", names)
    assert outcome.error is None, outcome.error
    assert outcome.result["rows"] == [{"name": "it's here", "twice": "it's hereit's here!"}]


async def test_duckdb_takes_values_in_statements_without_parameters(duck) -> None:
    outcome = await duck("""
        CREATE TABLE t (a varchar DEFAULT '{{ text }}', day timestamp);
        COMMENT ON TABLE t IS '{{ text }}';
        CREATE VIEW v AS SELECT '{{ text }}' AS b;
        INSERT INTO t (day) VALUES (now()::timestamp - INTERVAL '{{ n }} days');
        SELECT a, b, comment, day < now()::timestamp - INTERVAL '{{ n - 1 }}' DAY AS old FROM t, v, duckdb_tables()
    """, {"text": "it's \\ a note", "n": 3})
    assert outcome.error is None, outcome.error
    note = "it's \\ a note"
    assert outcome.result["rows"] == [{"a": note, "b": note, "comment": note, "old": True}]


async def test_a_number_in_quotes_is_a_text_to_duckdb(duck) -> None:
    found = await duck("""
        CREATE TABLE t AS SELECT '{{ n }}' AS made;
        SELECT typeof('{{ n }}') AS bound, typeof(made) AS made, typeof('{{ yes }}') AS yes, '{{ many }}' AS many, z
        FROM t, (VALUES ('007'), ('7')) v(z) WHERE z = '{{ n }}'""", {"n": 7, "yes": True, "many": [1, {"a": 2}]})
    text = dict.fromkeys(("bound", "made", "yes"), "VARCHAR")
    assert found.result["rows"] == [{**text, "many": '[1,{"a":2}]', "z": "7"}]
    columns = "FROM (VALUES (7, true, 1.5)) v(i, b, f)"  # a text is what its place makes of it, as a literal is
    found = await duck(f"SELECT i {columns} WHERE i = '{{{{ n }}}}' AND b = '{{{{ yes }}}}' AND f < '{{{{ n }}}}'",
                       {"n": 7, "yes": True})
    assert found.result["rows"] == [{"i": 7}]


async def test_a_number_in_quotes_is_a_text_where_postgres_takes_literals(run) -> None:
    made = await run("CREATE TEMP TABLE t AS SELECT '{{ n }}' AS a; SELECT pg_typeof(a)::text AS a FROM t", {"n": 7})
    assert made.result["rows"] == [{"a": "text"}]


async def test_numbers_of_more_than_64_bits_are_texts(duck) -> None:
    found = await duck("SELECT 170141183460469231731687303715884105727::hugeint AS h, 9223372036854775807 AS b, "
                       "18446744073709551615::ubigint AS u, [2::hugeint ** 64] AS l")
    assert found.result["rows"][0] | {"l": 0} == {"h": "170141183460469231731687303715884105727",
                                                  "b": 2**63 - 1, "u": 2**64 - 1, "l": 0}


async def test_duckdb_upserts(duck, opened, tmp_path) -> None:
    file = str(tmp_path / "a.db")
    assert (await duck("CREATE TABLE t (id int PRIMARY KEY, n int)", database=file)).error is None
    tool = opened("duckdb")
    for n in (1, 2):
        config = {"table": "t", "mode": "upsert", "key": ["id"], "args": {"id": 1, "n": n}, "database": file}
        assert (await tool.run(call(config))).error is None
    assert (await duck("SELECT id, n FROM t", database=file)).result["rows"] == [{"id": 1, "n": 2}]


@pytest.mark.parametrize(("command", "extension"), [
    ("INSTALL httpfs; LOAD httpfs; SELECT 1", "httpfs"),
    ("LOAD httpfs; SELECT 1", "httpfs"),
    ("ATTACH '' AS pg_db (TYPE postgres, SECRET pg_db); SELECT 1", "postgres"),
    ("COPY (SELECT 1) TO 'gs://bucket/a.csv'", "httpfs"),
])
async def test_an_extension_that_is_missing_is_told_and_no_secret_with_it(
    tmp_path, monkeypatch, command: str, extension: str,
) -> None:
    monkeypatch.setattr(duck_extensions, "load", lambda name, _version: f"LOAD {name}")  # no package carries it
    auth = {"pg_db": {"type": "postgres", "dsn": "postgresql://me:hidden-pass@127.0.0.1:9/d"},
            "files": {"type": "hmac", "key_id": "hidden-key", "secret": "hidden-secret", "scope": "gs://bucket"}}
    tool = open_tool("duckdb", ToolOptions(duckdb_extensions=str(tmp_path)))
    outcome = await tool.run(call({"command": command}, auth=auth))
    await tool.close()
    assert outcome.error["kind"] == "extension"
    assert f"extension {extension}" in outcome.error["message"]
    assert "hidden" not in str(outcome.error)


async def test_duckdb_attaches_postgres_with_the_secret_of_an_alias(duck, run, database: str) -> None:
    auth = {"pg_db": {"type": "postgres", "dsn": database}}
    command = """INSTALL postgres; LOAD postgres;
        ATTACH '' AS pg_db (TYPE postgres, SECRET pg_db);
        CREATE TABLE pg_db.made (id BIGINT PRIMARY KEY, doc TEXT);
        INSERT INTO pg_db.made VALUES ({{ n }}, '{{ doc | tojson | replace("'", "''") }}');
        SELECT count(*) AS n FROM pg_db.made"""
    outcome = await duck(command, {"n": 7, "doc": {"a": "it's"}}, auth)
    assert outcome.error is None, outcome.error
    assert outcome.result["rows"] == [{"n": 1}]
    assert await _rows(run, "SELECT id, doc::jsonb->>'a' AS a FROM made") == [{"id": 7, "a": "it's"}]


async def test_credentials_a_statement_does_not_use_need_no_extension(duck) -> None:
    auth = {"pg_db": {"type": "postgres", "dsn": "postgresql://127.0.0.1:9/d"}}
    assert (await duck("SELECT 1 AS a", auth=auth)).result["rows"] == [{"a": 1}]


# -- python


async def test_a_program_sees_its_credentials_by_alias_and_names_out_of_modules(opened) -> None:
    libs = {"when": {"from": "datetime", "import": "datetime"}, "path": {"from": "os", "import": "path"},
            "minidom": {"from": "xml.dom", "import": "minidom"}, "json": "json", "m": {"import": "math"}, "re": None}
    code = ("result = [when.fromisoformat('2024-01-02').year, path.basename('a/b'), minidom.__name__, "
            "auth['gcs']['k'], json.dumps(1), m.floor(1.5), re.sub('a', 'b', 'a')]")
    outcome = await opened("python").run(call({"code": code, "libs": libs}, auth={"gcs": {"k": "v", "type": "x"}}))
    assert outcome.error is None, outcome.error
    assert outcome.result == [2024, "b", "xml.dom.minidom", "v", "1", 1, "b"]


async def test_a_name_that_is_not_in_a_module_is_an_import_error(opened) -> None:
    tool = opened("python")
    outcome = await tool.run(call({"code": "result = 1", "libs": {"x": {"from": "os", "import": "nothing"}}}))
    assert outcome.py["exception_type"] == "ImportError"
    outcome = await tool.run(call({"code": "result = 1", "libs": {"x": {"from": "os", "name": "path"}}}))
    assert outcome.error["kind"] == "config"


# -- the result of every statement


@pytest.mark.parametrize("kind", ["postgres", "duckdb"])
async def test_a_call_may_ask_for_the_result_of_each_statement(opened, database: str, kind: str) -> None:
    command = ("CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2); SELECT a FROM t WHERE a = 1; "
               "SELECT count(*) AS n FROM t")
    outcome = await opened(kind).run(call({"command": command, "results": "all"}, auth={"dsn": database, "type": "pg"}))
    assert outcome.error is None, outcome.error
    result = outcome.result
    assert [result[f"command_{i}"]["row_count"] for i in range(4)] == [0, 2, 1, 1]
    assert result["command_2"]["rows"] == [{"a": 1}]
    assert result["rows"] == result["command_3"]["rows"] == [{"n": 2}]
    seen = view(Result(result, "sql"))
    assert seen.find("command_2")["rows"] == [{"a": 1}]
    outcome = await opened(kind).run(call({"command": "SELECT 1 AS a"}, auth={"dsn": database, "type": "pg"}))
    assert set(outcome.result) == {"rows", "row_count", "columns"}
    outcome = await opened(kind).run(call({"command": "SELECT 1", "results": "some"}, auth={"dsn": database}))
    assert outcome.error["kind"] == "config"


async def test_the_results_of_all_statements_are_bounded_together(duck, monkeypatch) -> None:
    monkeypatch.setattr(sql_call, "RESULT_LIMIT", 400)
    one = "SELECT repeat('a', 100) AS a;"
    assert (await duck(one * 3)).error is None
    assert (await duck(one * 3, results="all")).error["kind"] == "limit"


@pytest.mark.parametrize("test", ["n IN ({{ ids | join(',') }})", "n IN {{ ids }}"])
async def test_a_list_that_stands_where_it_cannot_says_what_to_write(run, test: str) -> None:
    outcome = await run(f"SELECT n FROM (VALUES (1), (2)) v(n) WHERE {test}", {"ids": [1, 2]})
    assert outcome.error is not None
    assert "= ANY({{ … }})" in outcome.error["message"]
    assert "`{{ ids" in outcome.error["message"]
    assert "$1" not in outcome.error["message"]
    rows = await _rows(run, "SELECT n FROM (VALUES (1), (3)) v(n) WHERE n = ANY({{ ids }})", {"ids": [1, 2]})
    assert rows == [{"n": 1}]


@pytest.mark.parametrize(("command", "written"), [
    ("SELECT 1; SELECT {{ n }}; SELECT {{ n }}::int + 1, {{ word }}::int", "`{{ word }}`"),
    ("SELECT {{ n }}, {{ word }}::int, {{ n }}", "`{{ word }}`"),
    ("SELECT * FROM (VALUES (1)) v(n) LIMIT {{ word }} {{ n }}", "`{{ n }}`"),
    ("SELECT date '{{ word }} {{ n }}'", "`{{ word }} and {{ n }}`"),
])
async def test_an_error_speaks_of_a_value_as_it_is_written(run, command: str, written: str) -> None:
    outcome = await run(command, {"n": 7, "word": "seven"})
    assert outcome.error is not None
    assert written in outcome.error["message"]
    assert "$" not in outcome.error["message"]
    assert "seven" not in outcome.error["message"]
