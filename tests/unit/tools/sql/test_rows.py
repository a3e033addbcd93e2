"""Which values of a row go where."""

from typing import Any

import pytest

from shared.tools.base.guard import BadCall
from shared.tools.sql.rows import (
    NAMES_TOLD,
    Batch,
    Picker,
    key_columns,
    last_of_each,
    match,
    row_query,
    target_columns,
    told,
)


def test_without_a_mapping_rows_go_as_they_come() -> None:
    picker = Picker(None)
    assert picker.columns(["a", "b"]) == ["a", "b"]
    assert picker.rows(Batch(["a", "b"], [(1, 2)])) == [[1, 2]]


def test_a_mapping_picks_and_orders_fields() -> None:
    picker = Picker({"x": "b", "y": "A", "z": "b"})
    assert picker.columns(["a", "b", "c"]) == ["x", "y", "z"]
    assert picker.rows(Batch(["a", "b", "c"], [(1, 2, 3), (4, 5, 6)])) == [[2, 1, 2], [5, 4, 5]]
    with pytest.raises(BadCall, match="no field 'b'; it has a"):
        Picker({"x": "b"}).rows(Batch(["a"], [(1,)]))


@pytest.mark.parametrize(("name", "known", "found"), [
    ("id", ["ID", "id"], "id"), ("id", ["ID"], "ID"), ("id", ["Id", "ID"], None), ("id", ["idx"], None),
])
def test_names_match_exactly_or_by_case_alone(name: str, known: list[str], found: str | None) -> None:
    assert match(name, known) == found


def test_a_message_lists_some_names() -> None:
    assert told(["a"]) == "a"
    assert told([f"c{n}" for n in range(NAMES_TOLD + 3)]).endswith(" and 3 more")


def test_columns_are_spelled_as_the_table_has_them() -> None:
    assert target_columns(["ID", "v"], ["id", "v", "rest"]) == ["id", "v"]
    with pytest.raises(BadCall, match="no column 'w'"):
        target_columns(["w"], ["id"])


@pytest.mark.parametrize(("given", "primary", "key"), [
    (None, ["id"], ["ID"]), ("id", [], ["ID"]), ("id, v", [], ["ID", "V"]), (["v"], ["id"], ["V"]),
])
def test_the_key_is_the_authors_or_the_primary_one(given: Any, primary: list[str], key: list[str]) -> None:
    assert key_columns(given, ["ID", "V"], primary) == key


@pytest.mark.parametrize("given", [None, [], "x", 5])
def test_a_key_that_is_not_written_is_refused(given: Any) -> None:
    with pytest.raises(BadCall):
        key_columns(given, ["ID"], [])


def test_of_rows_with_one_key_the_last_stands() -> None:
    rows = [[1, "a"], [2, "b"], [1, "c"], ["1", "d"]]
    assert last_of_each(rows, ["id", "v"], ["id"]) == [[1, "c"], [2, "b"], ["1", "d"]]


def test_a_statement_takes_the_values_of_a_row_in_order() -> None:
    text = "INSERT INTO t VALUES (%s, '%s', \"%s\", %s) -- %s\n /* %s */ WHERE a %% 2 = $$ %s $$"
    query = row_query(text, [], 2, numbered=True)
    assert query.text == "INSERT INTO t VALUES ($1, '%s', \"%s\", $2) -- %s\n /* %s */ WHERE a % 2 = $$ %s $$"
    assert query.row(["x", "y"]) == ["x", "y"]
    assert row_query("MERGE (%s, %s)", [], 2, numbered=False).text == "MERGE (?, ?)"


def test_numbers_may_repeat_and_templates_bring_their_own_values() -> None:
    query = row_query("INSERT INTO t VALUES ($2, $1, $2)", [], 2, numbered=False)
    assert (query.text, query.row(["x", "y"])) == ("INSERT INTO t VALUES (?, ?, ?)", ["y", "x", "y"])
    query = row_query("INSERT INTO t VALUES ($1, %s, $2)", ["tpl", None], 1, numbered=True)
    assert (query.text, query.row(["x"])) == ("INSERT INTO t VALUES ($1, $2, $3)", ["tpl", "x", None])


@pytest.mark.parametrize("text", ["VALUES (%s)", "VALUES (%s, %s, %s)", "VALUES ($3)", "VALUES ($0)", "VALUES (1)"])
def test_a_statement_must_fit_the_rows(text: str) -> None:
    with pytest.raises(BadCall):
        row_query(text, [], 2, numbered=True)
