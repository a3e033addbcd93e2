"""SQL on DuckDB reaches the files its operator allows, and nothing else of the worker: neither through what an
author writes nor through a value of a request."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from shared.dsl.templates.evaluate import render_sql
from shared.events.outcome import Outcome
from shared.tools.base.contract import Tool, ToolOptions
from shared.tools.registry import open_tool
from tests.support.calls import call

Run = Callable[..., Awaitable[Outcome]]
SECRET = "a line of somebody else"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The operator's folder, beside it a file of somebody else and in it a link to that."""
    made = tmp_path / "allowed"
    made.mkdir()
    (made / "own.csv").write_text("a\n1\n")
    (tmp_path / "other.csv").write_text(f"{SECRET}\n")
    (made / "link.csv").symlink_to(tmp_path / "other.csv")
    return made


@pytest.fixture
async def tools(tmp_path: Path, folder: Path) -> AsyncIterator[dict[str, Tool]]:
    temp = tmp_path / "temp"
    temp.mkdir()
    options = ToolOptions(temp_folder=str(temp), duckdb_files=(str(folder),))
    made = {kind: open_tool(kind, options) for kind in ("duckdb", "ducklake", "transfer")}
    made["closed"] = open_tool("duckdb", ToolOptions(temp_folder=str(temp)))
    yield made
    for tool in made.values():
        await tool.close()


@pytest.fixture
def run(tools: dict[str, Tool]) -> Run:
    async def one(command: str, names: dict[str, Any] | None = None, tool: str = "duckdb", auth: Any = None,
                  **config: Any) -> Outcome:
        outcome = await tools[tool].run(call({"command": render_sql(command, names or {}), **config}, auth=auth))
        assert isinstance(outcome, Outcome)
        return outcome

    return one


READS = ["SELECT * FROM read_csv('{}')", "SELECT * FROM '{}'", "SELECT * FROM read_text('{}')",
         "SELECT * FROM read_blob('{}')", "SELECT * FROM sniff_csv('{}')",
         "SELECT * FROM read_json('{}')", "SELECT * FROM parquet_metadata('{}')", "SELECT * FROM read_csv(['{}'])",
         "SELECT * FROM query('SELECT * FROM read_text(''{}'')')", "SELECT * FROM query_table('{}')",
         "CREATE MACRO f(x) AS TABLE SELECT * FROM read_text(x); SELECT * FROM f('{}')",
         "CREATE TABLE t (a text); COPY t FROM '{}'; SELECT * FROM t", "IMPORT DATABASE '{}'",
         "SET file_search_path = '/'; SELECT * FROM '{}'", "CREATE VIEW v AS SELECT * FROM '{}'; SELECT * FROM v"]


@pytest.mark.parametrize("tool", ["duckdb", "closed"])
@pytest.mark.parametrize("statement", READS)
async def test_files_outside_the_folder_are_not_read(run: Run, tmp_path: Path, tool: str, statement: str) -> None:
    for place in (tmp_path / "other.csv", tmp_path / "allowed" / ".." / "other.csv", tmp_path / "allowed" / "link.csv",
                  Path("/etc/passwd"), Path("/proc/self/environ")):
        outcome = await run(statement.format(place), tool=tool)
        assert outcome.error is not None, place
        assert SECRET not in str(outcome)
        assert "root:" not in str(outcome)


async def test_folders_outside_are_not_listed(run: Run, tmp_path: Path) -> None:
    for place in (f"{tmp_path}/*", "/etc/*", f"{tmp_path}/allowed/../*", "/*", "*"):
        assert (await run(f"SELECT * FROM glob('{place}')")).error is not None, place


@pytest.mark.parametrize("template", ["SELECT * FROM {{ t | identifier }}", "SELECT * FROM '{{ t }}'",
                                      'SELECT * FROM "{{ t }}"', "SELECT * FROM read_text('{{ t }}')",
                                      "SELECT * FROM query_table('{{ t }}')"])
async def test_a_value_of_a_request_names_no_file(run: Run, tmp_path: Path, template: str) -> None:
    for value in (str(tmp_path / "other.csv"), "/etc/passwd", "/proc/self/environ"):
        outcome = await run(template, {"t": value})
        assert outcome.error is not None
        assert SECRET not in str(outcome)
        assert "root:" not in str(outcome)


@pytest.mark.parametrize("statement", [
    "COPY (SELECT 1) TO '{}/evil.csv'", "EXPORT DATABASE '{}/evil'", "ATTACH '{}/evil.db'",
    "COPY (SELECT 1 AS x) TO '{}/evil' (FORMAT parquet, PARTITION_BY (x))", "SET profiling_output = '{}/evil'",
    "PRAGMA profiling_output = '{}/evil'; PRAGMA enable_profiling; SELECT 1", "SET log_query_path = '{}/evil'",
    "CALL enable_logging('QueryLog', storage = 'file', storage_config = {{'path': '{}/evil'}}); SELECT 1",
    "SELECT * FROM \"Enable_Logging\"(storage = 'file', storage_config = {{'path': '{}/evil'}})",
    "SET temp_directory = '{}/evil'", "SET secret_directory = '{}/evil'; CREATE PERSISTENT SECRET s (TYPE http)",
    "CREATE PERSISTENT SECRET s (TYPE http)", "SET extension_directory = '{}/evil'",
    "ATTACH '{}/evil.db' AS e (TYPE duckdb)", "CREATE TABLE t (a int); COPY t TO '{}/allowed/../evil.csv'",
])
async def test_nothing_is_written_outside_the_folder(run: Run, tmp_path: Path, statement: str) -> None:
    outcome = await run(statement.format(tmp_path))
    assert outcome.error is not None
    assert sorted(os.listdir(tmp_path)) == ["allowed", "other.csv", "temp"]


@pytest.mark.parametrize("statement", [
    "SET enable_external_access = true", "SET lock_configuration = false", "RESET lock_configuration",
    "SET memory_limit = '500GB'", "SET GLOBAL threads = 64", "PRAGMA memory_limit = '500GB'", "PRAGMA threads = 64",
    "SET allowed_directories = ['/']", "SET allowed_paths = ['/etc/passwd']", "SET allowed_configs = ['memory_limit']",
    "SET autoload_known_extensions = true", "SET autoinstall_known_extensions = true", "RESET memory_limit",
    "SET allow_unsigned_extensions = true", "SET allow_community_extensions = true",
    "SET custom_extension_repository = 'http://127.0.0.1:9'", "SET python_enable_replacements = true",
    "SET disabled_filesystems = ''", "SET home_directory = '/'", "SET max_temp_directory_size = '500GB'",
    "PRAGMA enable_profiling", "CALL enable_profiling()",
])
async def test_what_is_set_stays_set(run: Run, statement: str) -> None:
    for text in (statement, f"SELECT 1; {statement}", f"{statement}; SELECT 1"):
        assert (await run(text)).error is not None


async def test_what_a_query_means_may_be_set(run: Run) -> None:
    outcome = await run("SET TimeZone = 'Europe/Berlin'; SET default_null_order = 'nulls_first'; SET VARIABLE n = 2; "
                        "SELECT current_setting('TimeZone') AS zone, getvariable('n') AS n")
    assert outcome.error is None, outcome.error
    assert outcome.result["rows"] == [{"zone": "Europe/Berlin", "n": 2}]


@pytest.mark.parametrize("statement", [
    "INSTALL spatial", "FORCE INSTALL spatial", "INSTALL spatial FROM community", "LOAD spatial",
    "INSTALL spatial FROM 'http://127.0.0.1:9'", "LOAD '/tmp/evil.duckdb_extension'", "UPDATE EXTENSIONS",
    "SELECT * FROM 'http://127.0.0.1:9/a.csv'", "SELECT * FROM 's3://bucket/a.csv'", "ATTACH 'md:mine'",
    "SELECT * FROM read_xlsx('a.xlsx')", "ATTACH 'sqlite:/etc/passwd' AS q",
    "ATTACH 'host=127.0.0.1 port=9' AS p (TYPE postgres)", "CREATE SECRET s (TYPE s3)",
])
async def test_no_extension_is_installed_or_loaded_unasked(run: Run, statement: str) -> None:
    outcome = await run(statement)
    assert outcome.error is not None
    assert not outcome.error["retryable"]


async def test_a_secret_leaves_for_no_other_server(run: Run) -> None:
    """Only the empty address, which the secret fills, is attached."""
    auth = {"pg": {"type": "postgres", "dsn": "postgresql://me:hidden@127.0.0.1:9/d"}}
    outcome = await run("ATTACH 'host=127.0.0.2 port=9' AS p (TYPE postgres, SECRET pg)", auth=auth)
    assert outcome.error is not None
    assert "127.0.0.2" not in outcome.error["message"].partition("SECRET")[2]
    assert "disabled" in outcome.error["message"]


@pytest.mark.parametrize("scope", ["/etc", "", "file:///etc", "../..", "s3:/etc", ["/etc"]])
async def test_the_scope_of_a_credential_opens_no_folder(run: Run, scope: Any) -> None:
    auth = {"files": {"type": "s3", "key_id": "k", "secret": "s", "scope": scope}}
    outcome = await run("SELECT * FROM read_text('/etc/passwd') -- s3:// files", auth=auth)
    assert outcome.error is not None
    assert "root:" not in str(outcome)


async def test_the_database_is_a_file_of_the_folder(run: Run, tmp_path: Path, folder: Path) -> None:
    for place in (str(tmp_path / "evil.db"), str(folder / ".." / "evil.db"), ":memory:shared", "md:mine",
                  "/etc/passwd", "http://127.0.0.1:9/a.db", "a\0b"):
        outcome = await run("SELECT 1", database=place)
        assert outcome.error is not None, place
        assert outcome.error["kind"] == "config"
    closed = await run("SELECT 1", tool="closed", database=str(folder / "x.db"))
    assert "NOETL_DUCKDB_FILES" in closed.error["message"]
    for place in ("x.db", str(folder / "x.db")):
        assert (await run("CREATE TABLE IF NOT EXISTS t (a int)", database=place)).error is None
        assert (await run("CHECKPOINT", database=place)).error is None
    assert "x.db" in os.listdir(folder)


async def test_the_temporary_folder_is_the_calls_own(run: Run, tmp_path: Path) -> None:
    (tmp_path / "temp" / "left.csv").write_text(SECRET)
    outcome = await run(f"SELECT * FROM read_text('{tmp_path}/temp/left.csv')")
    assert outcome.error is not None
    assert os.listdir(tmp_path / "temp") == ["left.csv"]


async def test_what_is_in_the_folder_is_read_and_written(run: Run, folder: Path) -> None:
    outcome = await run("COPY (SELECT a + 1 AS a FROM '{{ f }}/own.csv') TO '{{ f }}/made.parquet'; "
                        "ATTACH '{{ f }}/more.db' AS more; "
                        "CREATE TABLE more.t AS SELECT * FROM '{{ f }}/made.parquet'; "
                        "SELECT * FROM more.t", {"f": str(folder)})
    assert outcome.error is None, outcome.error
    assert outcome.result["rows"] == [{"a": 2}]


async def test_calls_with_secrets_share_no_database_at_the_same_time(run: Run) -> None:
    """Secrets, attached databases and settings are those of a database: another call must not find them."""
    await run("CREATE TABLE t (a int)", database="x.db")
    slow = "CREATE TEMPORARY SECRET mine (TYPE http, BEARER_TOKEN 'x'); SELECT count(*) AS n FROM range(30000000)"
    first = asyncio.create_task(run(slow, database="x.db"))
    seen = [await run("SELECT count(*) AS n FROM duckdb_secrets()", database="x.db") for _ in range(5)]
    assert (await first).error is None
    assert [each.result["rows"] for each in seen] == [[{"n": 0}]] * 5


async def test_a_lake_is_in_the_folder(run: Run, tmp_path: Path, folder: Path) -> None:
    good = {"catalog_name": "lab", "catalog_connection": str(folder / "lake"), "data_path": str(folder / "data")}
    assert (await run("CREATE TABLE t AS SELECT 1 AS a", tool="ducklake", **good)).error is None
    assert (await run("SELECT * FROM t", tool="ducklake", **good)).result["rows"] == [{"a": 1}]
    for change in ({"catalog_connection": str(tmp_path / "lake")}, {"data_path": str(tmp_path / "data")},
                   {"catalog_connection": "/etc/passwd"}, {"data_path": "s3://bucket/x"},
                   {"catalog_connection": "sqlite:/tmp/x"}, {"catalog_connection": "duckdb:/tmp/x"}):
        outcome = await run("SELECT 1", tool="ducklake", **{**good, **change})
        assert (outcome.error["kind"], "NOETL_DUCKDB_FILES" in outcome.error["message"]) == ("config", True), change
    for statement in ("SELECT * FROM read_text('/etc/passwd')", "SET enable_external_access = true",
                      f"COPY t TO '{tmp_path}/evil.csv'", f"ATTACH '{tmp_path}/evil.db'",
                      f"CALL ducklake_add_data_files('lab', 't', '{tmp_path}/other.csv')"):
        assert (await run(statement, tool="ducklake", **good)).error is not None, statement


async def test_a_transfer_reads_what_a_task_may(tools: dict[str, Tool], tmp_path: Path) -> None:
    async def transfer(query: str, database: str | None = None, target: str = "x.db") -> Outcome:
        source = {"type": "duckdb", "query": query, **({"database": database} if database else {})}
        outcome = await tools["transfer"].run(call({"source": source, "target": {
            "type": "duckdb", "database": target, "table": "t"}}))
        assert isinstance(outcome, Outcome)
        return outcome

    await tools["duckdb"].run(call({"command": "CREATE TABLE t (content text)", "database": "x.db"}))
    assert (await transfer("SELECT 'a' AS content")).error is None
    assert (await transfer("SELECT content FROM t", "x.db")).error is None
    assert (await transfer("SELECT content FROM read_text('/etc/passwd')")).error is not None
    assert (await transfer("SELECT 'a' AS content", None, str(tmp_path / "evil.db"))).error is not None
    assert (await transfer("SELECT 'a' AS content", str(tmp_path / "evil.db"))).error is not None
    assert not (tmp_path / "evil.db").exists()
    assert os.listdir(tmp_path / "temp") == []
