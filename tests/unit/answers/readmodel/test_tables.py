"""Rows beside the log: PostgreSQL writes numbers its own way, and they are compared as numbers."""

import pytest

from shared.answers.readmodel.tables import KEYS, Tables, differences


def rows(value: str) -> Tables:
    return {**{table: [] for table in KEYS}, "ctx": [{"key": "x", "value": value}]}


@pytest.mark.parametrize(("log", "row"), [
    ("1e23", "1" + "0" * 23), ("[1e100]", "[1" + "0" * 100 + "]"),
    ('{"a": {"b": -1e25}}', '{"a": {"b": -1' + "0" * 25 + "}}"),
    ("1.7976931348623157e308", "17976931348623157" + "0" * 292), ("1.0", "1"), ("0.10", "0.1"), ("-0.0", "0.0"),
])
def test_a_number_is_the_same_however_it_is_written(log: str, row: str) -> None:
    assert list(differences(rows(log), rows(row))) == []


@pytest.mark.parametrize(("log", "row"), [
    ("1e23", "1" + "0" * 22), ("1e308", "1" + "0" * 309), ("9007199254740993", "9007199254740992"),
    ("[1e23]", "[1e23, 1]"), ('{"a": 1e23}', '{"b": 1e23}'), ("1", "true"), ("0", "false"), ("1e23", '"1e23"'),
    ("null", "0"),
])
def test_another_value_is_told(log: str, row: str) -> None:
    (found,) = differences(rows(log), rows(row))
    assert (found.table, found.key, found.column) == ("ctx", "x", "value")
