"""`kind: snowflake`: the real connector, answered by fakesnow."""

import sys
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from shared.dsl.templates.sql import Sql
from shared.tools.sql import call as sql_call
from tests.support.calls import call, recorded
from tests.support.servers.snowflake import CREDENTIAL

pytestmark = pytest.mark.usefixtures("snow")


@pytest.fixture
def run(opened):
    tool = opened("snowflake")

    async def one(command: Any = None, _auth: dict[str, Any] | None = None, **config: Any):
        given = config if command is None else {"command": command, **config}
        asked = call(given, auth=CREDENTIAL if _auth is None else _auth)
        return recorded(await tool.run(asked), asked)

    return one


async def test_the_last_statement_gives_the_rows(run) -> None:
    outcome = await run("CREATE DATABASE IF NOT EXISTS LAB; USE DATABASE LAB; SELECT 1 AS a, 'x;y' AS b -- or; not")
    assert outcome.error is None
    assert outcome.shape == "sql"
    assert outcome.result == {"rows": [{"A": 1, "B": "x;y"}], "row_count": 1, "columns": ["A", "B"]}


async def test_the_results_of_all_statements_are_there_when_asked_for(run) -> None:
    outcome = await run("SELECT 1 AS a; SELECT 2 AS b", results="all")
    assert outcome.result["rows"] == [{"B": 2}]
    assert outcome.result["command_0"]["rows"] == [{"A": 1}]


async def test_statements_without_rows_count_what_they_changed(run) -> None:
    assert (await run("CREATE TABLE t (a INT)")).result == {"rows": [], "row_count": 0, "columns": []}
    assert (await run("INSERT INTO t VALUES (1), (2)")).result == {"rows": [], "row_count": 2, "columns": []}
    assert (await run("UPDATE t SET a = 5")).result["row_count"] == 2
    assert (await run("DELETE FROM t WHERE a = 6")).result["row_count"] == 0
    assert (await run("SELECT 'fine' AS \"status\"")).result["rows"] == [{"status": "fine"}]


async def test_values_are_json_without_loss(run) -> None:
    outcome = await run("""SELECT 1.50::NUMBER(10, 2) AS d, '2024-01-02'::DATE AS day,
        '2024-01-02 03:04:05 +00:00'::TIMESTAMP_TZ AS seen, PARSE_JSON('{"a": [1]}') AS doc,
        NULL::VARIANT AS none, TRUE AS yes, TO_BINARY('6162', 'HEX') AS raw""")
    assert outcome.error is None
    row = outcome.result["rows"][0]
    assert row.pop("SEEN").startswith("2024-01-02T03:04:05")
    assert row == {"D": 1.5, "DAY": "2024-01-02", "DOC": {"a": [1]}, "NONE": None, "YES": True, "RAW": "YWI="}


async def test_what_templates_yield_is_bound_and_never_text(run) -> None:
    await run("CREATE TABLE t (id INT, name STRING, doc VARIANT)")
    evil = "x'); DROP TABLE t; --"
    insert = Sql("INSERT INTO t SELECT $1, $2, PARSE_JSON($3); SELECT * FROM t WHERE name = $2", [1, evil, {"k": [1]}])
    assert (await run(insert)).result["rows"] == [{"ID": 1, "NAME": evil, "DOC": {"k": [1]}}]
    assert (await run("SELECT $2 AS b, $1 AS a", params=[1, "z"])).result["rows"] == [{"B": "z", "A": 1}]


async def test_changes_of_several_statements_are_one_transaction(run) -> None:
    await run("CREATE TABLE t (a INT)")
    broken = await run("INSERT INTO t VALUES (1); SELECT * FROM nowhere")
    assert (broken.error["kind"], broken.error["retryable"], broken.error["code"]) == ("snowflake", False, "42S02")
    assert (await run("SELECT * FROM t")).result["rows"] == []
    await run("BEGIN; INSERT INTO t VALUES (2); COMMIT")
    assert (await run("SELECT * FROM t")).result["rows"] == [{"A": 2}]


async def test_a_table_takes_args_as_rows_by_folded_names(run) -> None:
    await run("CREATE TABLE t (id INT, doc VARIANT, \"odd Name\" STRING)")
    rows = [{"id": 1, "doc": {"a": [1]}, '"odd Name"': "x"}, {"id": 2, "doc": None, '"odd Name"': None}, {"id": 3}]
    assert (await run(table="public.t", args=rows)).error is None
    assert (await run("SELECT * FROM t ORDER BY id")).result["rows"] == [
        {"ID": 1, "DOC": {"a": [1]}, "odd Name": "x"}, {"ID": 2, "DOC": None, "odd Name": None},
        {"ID": 3, "DOC": None, "odd Name": None}]


async def test_an_upsert_updates_the_row_with_the_same_key(run) -> None:
    await run("CREATE TABLE t (id INT, name STRING)")
    for name in ("a", "b"):
        args = [{"id": 1, "name": "before"}, {"id": 1, "name": name}, {"id": 2, "name": name}]
        assert (await run(table="t", args=args, mode="upsert", key="id")).error is None
    assert (await run("SELECT * FROM t ORDER BY id")).result["rows"] == [
        {"ID": 1, "NAME": "b"}, {"ID": 2, "NAME": "b"}]


async def test_more_rows_than_the_limit_are_refused(run, monkeypatch) -> None:
    monkeypatch.setattr(sql_call, "ROW_LIMIT", 3000)
    outcome = await run("SELECT SEQ4() AS n FROM TABLE(GENERATOR(ROWCOUNT => 5000))")
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("limit", False)


async def test_the_session_is_told_who_asks_and_for_how_long(run, snow) -> None:
    await run("SELECT 1", warehouse="LOAD_WH", role="ETL")
    told = snow[-1]
    assert (told["account"], told["user"], told["password"]) == ("acme", "loader", "hunter-22")
    assert (told["warehouse"], told["role"], told["database"]) == ("LOAD_WH", "ETL", "LAB")
    assert told["session_parameters"] == {"STATEMENT_TIMEOUT_IN_SECONDS": 20, "QUERY_TAG": "run/task/1"}
    assert (told["login_timeout"], told["network_timeout"], told["paramstyle"]) == (20, 20, "qmark")


def _pem(passphrase: bytes | None) -> str:
    hidden = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden).decode()


async def test_a_key_pair_stands_for_a_password(run, snow) -> None:
    base = {"account": "acme", "username": "loader", "database": "LAB", "schema": "PUBLIC"}
    for given in ({"private_key": _pem(None)},
                  {"private_key": _pem(b"open"), "private_key_passphrase": "open"}):
        assert (await run("SELECT 1", _auth={**base, **given})).error is None
        assert serialization.load_der_private_key(snow[-1]["private_key"], None)
        assert "password" not in snow[-1]
    assert (await run("SELECT 1", _auth={**base, "token": "abc"})).error is None
    assert (snow[-1]["token"], snow[-1]["authenticator"]) == ("abc", "oauth")


@pytest.mark.parametrize("auth", [
    {"x": 1}, {"account": "a"}, {"account": "a", "user": "u"}, {"account": "a", "user": "u", "private_key": "no key"},
    {"account": "a", "user": "u", "private_key": _pem(b"open"), "private_key_passphrase": "wrong"},
])
async def test_a_credential_that_cannot_be_used_is_a_mistake(run, auth) -> None:
    outcome = await run("SELECT 1", _auth=auth)
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("config", False)
    assert "PRIVATE" not in outcome.error["message"]


@pytest.mark.parametrize("command", [";", "-- nothing", "// nothing", "PUT file:///etc/passwd @stage",
                                     "SELECT 1; GET @stage file:///tmp/x"])
async def test_a_command_must_be_statements_for_the_server(run, command) -> None:
    assert (await run(command)).error["kind"] == "config"


async def test_no_session_is_an_error_to_be_tried_again(run, monkeypatch) -> None:
    import snowflake.connector

    def down(**_: Any) -> None:
        raise snowflake.connector.errors.OperationalError(msg="cannot reach hunter-22.acme", errno=250001,
                                                          sqlstate="08001")

    monkeypatch.setattr(snowflake.connector, "connect", down)
    outcome = await run("SELECT 1")
    assert (outcome.error["kind"], outcome.error["retryable"], outcome.error["code"]) == ("connect", True, "08001")
    assert "hunter-22" not in str(outcome)


async def test_without_the_connector_the_outcome_names_the_extra(opened, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "snowflake.connector", None)
    outcome = await opened("snowflake").run(call({"command": "SELECT 1"}, auth=CREDENTIAL))
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("config", False)
    assert "noetl-jetstream[snowflake]" in outcome.error["message"]
