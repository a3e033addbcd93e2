"""`kind: ducklake`, with its catalogue in a real PostgreSQL and in a file."""

import asyncio
from typing import Any

import pytest

from shared.dsl.templates.sql import Sql
from shared.tools.base.contract import ToolOptions
from shared.tools.duckdb import lake_catalog
from shared.tools.duckdb.lake_tool import DuckLakeTool
from tests.support.calls import call


@pytest.fixture
def run(opened, tmp_path):
    tool = opened("ducklake")
    base = {"catalog_connection": str(tmp_path / "my lake"), "catalog_name": "test_catalog",
            "data_path": str(tmp_path / "it's data")}

    async def one(command: Any = None, _auth: dict[str, Any] | None = None, **config: Any):
        given = {**base, **({} if command is None else {"command": command}), **config}
        return await tool.run(call({key: value for key, value in given.items() if value is not None}, auth=_auth))

    return one


async def test_tables_of_a_lake_outlive_the_call_that_made_them(run) -> None:
    made = "CREATE TABLE users (id INTEGER, name VARCHAR, seen TIMESTAMP); INSERT INTO users VALUES (1, 'A', NOW())"
    assert (await run(made)).result == {"rows": [], "row_count": 1, "columns": []}
    found = await run(Sql("SELECT id, name FROM users WHERE id = $1", [1]))
    assert found.shape == "sql"
    assert found.result == {"rows": [{"id": 1, "name": "A"}], "row_count": 1, "columns": ["id", "name"]}
    assert (await run("SELECT name FROM test_catalog.main.users", data_path=None)).result["rows"] == [{"name": "A"}]
    assert (await run(table="users", args=[{"id": 2, "name": "it's"}])).error is None
    assert (await run("SELECT count(*) AS n FROM users")).result["rows"] == [{"n": 2}]


async def test_each_of_several_commands_has_its_rows(run) -> None:
    await run("CREATE TABLE t (a INTEGER)")
    outcome = await run(commands=[
        "INSERT INTO t VALUES (1), (2)",
        Sql("SELECT snapshot_id FROM ducklake_snapshots($1) ORDER BY snapshot_id DESC LIMIT 2", ["test_catalog"]),
        Sql("SELECT table_name FROM ducklake_table_info($1)", ["test_catalog"])])
    assert outcome.error is None
    assert outcome.result == {
        "rows": [[], [{"snapshot_id": 2}, {"snapshot_id": 1}], [{"table_name": "t"}]], "row_count": 5,
        "columns": [[], ["snapshot_id"], ["table_name"]]}


async def test_results_of_commands_have_one_limit(run, monkeypatch) -> None:
    monkeypatch.setattr("shared.tools.duckdb.lake_tool.RESULT_LIMIT", 3000)
    one = "SELECT repeat('x', 1000) AS t"
    assert (await run(commands=[one, one])).error is None
    assert (await run(commands=[one, one, one])).error["kind"] == "limit"


async def test_a_command_that_fails_leaves_nothing_behind(run) -> None:
    await run("CREATE TABLE t (a INTEGER)")
    broken = await run("INSERT INTO t VALUES (1); SELECT * FROM nowhere")
    assert (broken.error["kind"], broken.error["retryable"]) == ("ducklake", False)
    assert (await run("SELECT * FROM t")).result["rows"] == []
    refused = await run("CREATE TABLE p (id INTEGER PRIMARY KEY)")
    assert "PRIMARY KEY" in refused.error["message"]


async def test_workers_share_a_catalogue_in_postgres(opened, database, tmp_path) -> None:
    workers = [opened("ducklake"), opened("ducklake")]
    base = {"catalog_name": "lab", "data_path": str(tmp_path / "data")}

    def one(command: Any):
        return call({**base, "catalog_connection": database, "command": command})

    assert (await workers[0].run(one("CREATE TABLE e (n INTEGER)"))).error is None
    outcomes = await asyncio.gather(*(workers[n % 2].run(one(Sql("CREATE TABLE IF NOT EXISTS e (n INTEGER); "
                                                                "INSERT INTO e VALUES ($1)", [n])))
                                      for n in (1, 2)))
    assert [outcome.error for outcome in outcomes] == [None] * 2
    found = await workers[1].run(call({**base, "command": "SELECT sum(n) AS s FROM e"}, auth={"dsn": database}))
    assert found.result["rows"] == [{"s": 3}]


async def test_writers_of_one_worker_that_make_the_same_table_all_succeed(run) -> None:
    command = "CREATE TABLE IF NOT EXISTS e (n INTEGER); INSERT INTO e VALUES (1)"
    assert [outcome.error for outcome in await asyncio.gather(*(run(command) for _ in range(3)))] == [None] * 3
    assert (await run("SELECT count(*) AS n FROM e")).result["rows"] == [{"n": 3}]


@pytest.mark.parametrize(("connection", "auth"), [
    ("postgresql://u:open%20sesame@127.0.0.1:9/x", None),
    ("host=127.0.0.1 port=9 user=u password='open sesame' dbname=x", None),
    (None, {"db_host": "127.0.0.1", "db_port": 9, "db_user": "u", "db_password": "open sesame", "db_name": "x"}),
])
async def test_a_catalogue_that_is_not_reached_shows_no_password(run, connection, auth) -> None:
    outcome = await run("SELECT 1", _auth=auth, catalog_connection=connection)
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("connect", True)
    assert "sesame" not in str(outcome)


@pytest.mark.parametrize("change", [
    {"catalog_name": ""}, {"catalog_name": 3}, {"data_path": 3}, {"catalog_connection": None},
    {"catalog_connection": 5}, {"command": None}, {"command": "-- nothing"}, {"commands": ["SELECT 1"]},
    {"command": None, "commands": "SELECT 1"}, {"command": None, "commands": ["SELECT 1", ";"]},
    {"command": None, "table": "t"}, {"command": None, "commands": ["SELECT 1;" * 600] * 2},
    {"command": None, "commands": ["SELECT 1"], "results": "all"}, {"results": "some"},
])
async def test_what_is_written_wrong_is_a_mistake_of_the_call(run, change) -> None:
    outcome = await run(**{"command": "SELECT 1", **change})
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("config", False)


async def test_one_place_for_the_catalogue(run) -> None:
    assert (await run("SELECT 1", _auth={"host": "h"})).error["kind"] == "config"
    assert (await run("SELECT 1", _auth={"user": "u"}, catalog_connection=None)).error["kind"] == "config"


async def test_without_the_extension_the_outcome_says_how_to_get_it(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(lake_catalog, "load", lambda name, _version: f"LOAD {name}")
    monkeypatch.setattr("shared.tools.duckdb.lake_tool.load", lake_catalog.load)
    tool = DuckLakeTool(ToolOptions(duckdb_extensions=str(tmp_path), duckdb_files=(str(tmp_path),)))
    outcome = await tool.run(call({"catalog_connection": "x.lake", "catalog_name": "lab", "command": "SELECT 1"}))
    await tool.close()
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("extension", False)
    assert "noetl-jetstream[ducklake]" in outcome.error["message"]
    assert str(tmp_path) in outcome.error["reason"]


async def test_the_folder_of_extensions_is_where_they_are_loaded_from(tmp_path, monkeypatch) -> None:
    import duckdb

    carried = lake_catalog.load("ducklake", duckdb.__version__).removeprefix("LOAD ").strip("'")
    platform = duckdb.sql("PRAGMA platform").fetchone()[0]
    folder = tmp_path / "extensions" / f"v{duckdb.__version__}" / platform
    folder.mkdir(parents=True)
    (folder / "ducklake.duckdb_extension").symlink_to(carried)
    monkeypatch.setattr("shared.tools.duckdb.lake_tool.load", lambda name, _version: f"LOAD {name}")
    tool = DuckLakeTool(ToolOptions(duckdb_extensions=str(tmp_path / "extensions"), duckdb_files=(str(tmp_path),)))
    outcome = await tool.run(call({"catalog_connection": str(tmp_path / "l"), "catalog_name": "lab",
                                   "data_path": str(tmp_path / "d"), "command": "SELECT 1 AS a"}))
    await tool.close()
    assert outcome.error is None
    assert outcome.result["rows"] == [{"a": 1}]
