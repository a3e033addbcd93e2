"""Splitting a command into statements."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.tools.running import BadCall
from shared.tools.sql_text import MAX_STATEMENTS, insert, split


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
