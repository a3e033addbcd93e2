"""Splitting a command into statements."""

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.tools.base.guard import BadCall
from shared.tools.sql.insert import insert
from shared.tools.sql.text import MAX_STATEMENTS, inlined, literal, split


def _texts(command: str) -> list[str]:
    return [statement.text for statement in split(command, [1, 2, 3])]


@pytest.mark.parametrize(("command", "texts"), [
    ("SELECT 1", ["SELECT 1"]),
    ("SELECT 1;", ["SELECT 1"]),
    ("SELECT 1; SELECT 2", ["SELECT 1", "SELECT 2"]),
    (";;  ;", []),
    ("-- only; a comment", []),
    ("SELECT ';'; SELECT 2", ["SELECT ';'", "SELECT 2"]),
    ("SELECT 'it''s;'; SELECT 2", ["SELECT 'it''s;'", "SELECT 2"]),
    (r"SELECT E'a\';b'; SELECT 2", [r"SELECT E'a\';b'", "SELECT 2"]),
    (r"SELECT 'a\'; SELECT 2", [r"SELECT 'a\'", "SELECT 2"]),
    ('SELECT ";" FROM t; SELECT 2', ['SELECT ";" FROM t', "SELECT 2"]),
    ("DO $$ a; b $$; SELECT 2", ["DO $$ a; b $$", "SELECT 2"]),
    ("DO $x$ a; $$ ; $y$; $x$; SELECT 2", ["DO $x$ a; $$ ; $y$; $x$", "SELECT 2"]),
    ("SELECT 1 /* a; /* b; */ c; */; SELECT 2", ["SELECT 1 /* a; /* b; */ c; */", "SELECT 2"]),
    ("SELECT 1 -- a; b\n; SELECT 2", ["SELECT 1 -- a; b", "SELECT 2"]),
    ("CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2); SELECT 3",
     ["CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2)", "SELECT 3"]),
    ("CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT CASE WHEN a THEN 1 END; END; SELECT 2",
     ["CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT CASE WHEN a THEN 1 END; END", "SELECT 2"]),
    ("SELECT 'never closed; SELECT 2", ["SELECT 'never closed; SELECT 2"]),
])
def test_a_semicolon_ends_a_statement_only_in_the_open(command, texts) -> None:
    assert _texts(command) == texts


def test_params_are_numbered_anew_for_each_statement() -> None:
    first, second = split("INSERT INTO t VALUES ($2, $1, $2); SELECT '$1', a$1, $3 -- $2", ["a", "b", "c"])
    assert (first.text, first.params) == ("INSERT INTO t VALUES ($1, $2, $1)", ["b", "a"])
    assert (second.text, second.params) == ("SELECT '$1', a$1, $1 -- $2", ["c"])


def test_the_verb_is_the_first_word() -> None:
    assert [statement.verb for statement in split("/* x */ select 1; (VALUES (1)); begin", [])] == [
        "SELECT", "VALUES", "BEGIN"]


@pytest.mark.parametrize("command", ["SELECT $1", "SELECT $0"])
def test_a_param_that_is_not_given_is_a_mistake(command) -> None:
    with pytest.raises(BadCall):
        split(command, [])


def test_the_number_of_statements_is_bounded() -> None:
    assert len(split("SELECT 1;" * MAX_STATEMENTS, [])) == MAX_STATEMENTS
    with pytest.raises(BadCall):
        split("SELECT 1;" * (MAX_STATEMENTS + 1), [])


@given(st.lists(st.text(alphabet="a';$\"-/*\n", max_size=12), max_size=4))
def test_a_quoted_value_never_splits_whatever_it_holds(values: list[str]) -> None:
    literals = ["'" + value.replace("'", "''") + "'" for value in values]
    command = ";".join(f"SELECT {literal}" for literal in literals)
    assert _texts(command) == [f"SELECT {literal}" for literal in literals]


@given(st.text(alphabet="ab ';\"-/*()\nEeBEGINATOMIC", max_size=60))
def test_any_text_is_split_into_pieces_of_itself(command: str) -> None:
    assert all(text in command for text in _texts(command))


def test_an_insert_quotes_its_names() -> None:
    made = insert('s.we"ird', [{"a b": 1, 'c"': None}])
    assert [(statement.text, statement.params) for statement in made] == [
        ('INSERT INTO "s"."we""ird" ("a b", "c""") VALUES ($1, $2)', [1, None])]


@pytest.mark.parametrize(("table", "args"), [("t", None), ("t", {}), ("t", []), ("t", [{"a": 1}, 5]), ("", {"a": 1})])
def test_an_insert_needs_rows_and_a_name(table, args) -> None:
    with pytest.raises(BadCall):
        insert(table, args)


@pytest.mark.parametrize(("value", "text"), [
    (None, "NULL"), (True, "TRUE"), (3, "3"), (-3, "(-3)"), (1.5, "1.5"), (float("inf"), "'inf'"), ("it's", "'it''s'"),
    ("a\\b'", " E'a\\\\b'''"), ({"a": [1]}, "'{\"a\":[1]}'"), ("'; DROP TABLE t; --", "'''; DROP TABLE t; --'"),
])
def test_a_value_as_a_literal_stays_a_value(value, text) -> None:
    assert literal(value) == text


def test_a_literal_cannot_hold_nul() -> None:
    with pytest.raises(BadCall):
        literal("a\0b")


def test_a_statement_that_takes_no_parameters_gets_literals() -> None:
    command = ("COMMENT ON TABLE t IS $1; SELECT $1; SET a = $2 -- $1\n; "
               "CREATE TABLE u AS SELECT '$1', $3 /* $1 */, 1-$4")
    texts = [inlined(each).text for each in split(command, ["it's", 1, None, -1])]
    assert texts == ["COMMENT ON TABLE t IS 'it''s'", "SELECT $1", "SET a = 1 -- $1",
                     "CREATE TABLE u AS SELECT '$1', NULL /* $1 */, 1-(-1)"]


def test_an_upsert_updates_all_columns_but_the_key() -> None:
    (one,) = insert("s.t", {"id": 1, "a": 2, 'b"': 3}, "upsert", "id")
    assert one.text == ('INSERT INTO "s"."t" ("id", "a", "b""") VALUES ($1, $2, $3) ON CONFLICT ("id") '
                        'DO UPDATE SET "a" = EXCLUDED."a", "b""" = EXCLUDED."b"""')
    assert insert("t", {"id": 1, "n": 2}, "upsert", "id, n")[0].text.endswith('("id", "n") DO NOTHING')
    assert insert("t", {"id": 1, "n": 2}, "upsert", ["id", "n"])[0].text.endswith('("id", "n") DO NOTHING')


@pytest.mark.parametrize(("mode", "key"), [
    ("upsert", None), ("upsert", "other"), ("upsert", []), ("upsert", ""), ("upsert", 3), ("insert", "id"),
    ("replace", "id"),
])
def test_an_upsert_without_a_key_of_the_row_is_a_mistake(mode, key) -> None:
    with pytest.raises(BadCall):
        insert("t", {"id": 1}, mode, key)


@given(st.text().filter(lambda text: "\0" not in text))
def test_a_literal_reads_back_as_its_text(value) -> None:
    assert duckdb.sql("SELECT " + literal(value, escapes=False)).fetchall() == [(value,)]
