"""Snowflake's SQL told apart and put together."""

from typing import Any

import pytest

from shared.tools.base.guard import BadCall
from shared.tools.snowflake import text as snowflake_text
from shared.tools.snowflake.text import STATEMENT_PARAMS, insert, inserts, merges, name, split, table_name
from shared.tools.sql.text import INSERT_ROWS, MAX_STATEMENTS


@pytest.mark.parametrize(("text", "found"), [
    ("SELECT 1; SELECT 2;", ["SELECT 1", "SELECT 2"]),
    (r"SELECT 'it\'s; one'; SELECT 'it''s; two'", [r"SELECT 'it\'s; one'", "SELECT 'it''s; two'"]),
    ('SELECT "a;b" -- c; d\n; -- e', ['SELECT "a;b" -- c; d']),
    ("SELECT 1 // x; y\n, 2; /* a; /* b */ SELECT 3", ["SELECT 1 // x; y\n, 2", "/* a; /* b */ SELECT 3"]),
    ("EXECUTE IMMEDIATE $$ BEGIN; RETURN 'a;b'; END; $$; SELECT 1",
     ["EXECUTE IMMEDIATE $$ BEGIN; RETURN 'a;b'; END; $$", "SELECT 1"]),
    ("COPY INTO t FROM 's3://b/x;y'; LIST @s", ["COPY INTO t FROM 's3://b/x;y'", "LIST @s"]),
    ("SELECT $1, $2 FROM @stage", ["SELECT $1, $2 FROM @stage"]),
    ("-- nothing\n;;", []),
    ("SELECT 'never closed; x", ["SELECT 'never closed; x"]),
])
def test_statements_are_told_apart_as_snowflake_reads_them(text: str, found: list[str]) -> None:
    assert [statement.text for statement in split(text, [])] == found


def test_each_statement_gets_the_values_it_uses_in_its_order() -> None:
    first, second = split("INSERT INTO t VALUES ($2, $1, $2); SELECT '$1', $1", ["a", "b"])
    assert (first.text, first.params, first.verb) == ("INSERT INTO t VALUES (?, ?, ?)", ["b", "a", "b"], "INSERT")
    assert (second.text, second.params) == ("SELECT '$1', ?", ["a"])
    with pytest.raises(BadCall, match=r"\$3"):
        split("SELECT $3", ["a"])


def test_a_value_in_quotes_is_bound_as_its_text() -> None:
    (select,) = split("SELECT $1, $2 WHERE a = $1", [7, 7], frozenset({2}))
    assert select.params == [7, "7", 7]
    (create,) = split("CREATE TABLE t AS SELECT $1, $2", [7, 7], frozenset({2}))
    assert create.text == "CREATE TABLE t AS SELECT 7, '7'"


@pytest.mark.parametrize(("value", "written"), [
    (5, "5"), (None, "NULL"), ("it's", "'it''s'"), (r"a\b'c", r"'a\\b''c'"), ({"k": "v"}, """'{"k":"v"}'"""),
])
def test_where_nothing_can_be_bound_values_are_literals(value: Any, written: str) -> None:
    (statement,) = split("ALTER TABLE t SET COMMENT = $1;", [value])
    assert (statement.text, statement.params) == (f"ALTER TABLE t SET COMMENT = {written}", [])


def test_a_command_has_a_limit_of_statements() -> None:
    with pytest.raises(BadCall, match="at most"):
        split("SELECT 1;" * (MAX_STATEMENTS + 1), [])


@pytest.mark.parametrize(("given", "made"), [
    ("id", '"ID"'), ("My_Col$1", '"MY_COL$1"'), ('"id"', '"id"'), ("two words", '"two words"'), ('a"b', '"a""b"'),
])
def test_a_plain_name_is_folded_to_upper_case(given: str, made: str) -> None:
    assert name(given) == made


def test_a_table_name_may_say_database_and_schema() -> None:
    assert table_name('db.public."My.T"') == '"DB"."PUBLIC"."My.T"'


def test_rows_are_inserted_together_within_the_limit_of_a_statement() -> None:
    rows = [[n, {"n": n}] for n in range(STATEMENT_PARAMS // 2 + 1)]
    first, second = inserts("t", ["id", "doc"], rows, [False, True])
    assert second.text == ('INSERT INTO "T" ("ID", "DOC") SELECT column1, PARSE_JSON(column2) FROM VALUES (?, ?)')
    assert second.params == [STATEMENT_PARAMS // 2, f'{{"n":{STATEMENT_PARAMS // 2}}}']
    assert len(first.params) == STATEMENT_PARAMS


def test_an_upsert_is_a_merge() -> None:
    (merge,) = merges("t", ["id", "v"], ["id"], [[1, "a"]], [False, False])
    assert merge.text == (
        'MERGE INTO "T" AS t USING (SELECT column1 AS "ID", column2 AS "V" FROM VALUES (?, ?)) AS s '
        'ON t."ID" = s."ID" WHEN MATCHED THEN UPDATE SET "V" = s."V" '
        'WHEN NOT MATCHED THEN INSERT ("ID", "V") VALUES (s."ID", s."V")')
    (keys_only,) = merges("t", ["id"], ["id"], [[1]], [False])
    assert "WHEN MATCHED" not in keys_only.text


@pytest.mark.parametrize(("table", "args", "more"), [
    (5, {"a": 1}, ()), ("t", None, ()), ("t", [], ()), ("t", [{}], ()), ("t", ["x"], ()),
    ("t", [{"a": 1}] * (INSERT_ROWS + 1), ()), ("t", {"a": 1}, ("guess",)), ("t", {"a": 1}, (None, "a")),
    ("t", {"a": 1}, ("upsert",)), ("t", {"a": 1}, ("upsert", "b")), ("", {"a": 1}, ("upsert", [])),
])
def test_rows_that_cannot_be_inserted_are_refused(table: Any, args: Any, more: tuple[Any, ...]) -> None:
    with pytest.raises(BadCall):
        insert(table, args, *more)


def test_documents_are_json_also_beside_nothing() -> None:
    (made,) = snowflake_text.insert("t", [{"a": None}, {"a": [1]}])
    assert made.params == [None, "[1]"]
