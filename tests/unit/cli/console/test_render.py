"""The formats of -o."""

import json

import click
import pytest
import yaml

from services.cli.console import render
from services.cli.console.render import Column

ROWS = [{"name": "a", "busy": 1, "note": None}, {"name": "longer", "busy": 20, "note": "ä: b"}]
COLUMNS = [Column("NAME", "name"), Column("BUSY", "busy"), Column("NOTE", lambda row: row["note"], wide=True)]


def printed(capsys: pytest.CaptureFixture[str], output: str) -> str:
    render.rows(ROWS, COLUMNS, output, "name")
    return capsys.readouterr().out


def test_a_table_is_as_wide_as_it_has_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "table") == "NAME    BUSY\na       1\nlonger  20\n"


def test_wide_shows_every_column(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "wide") == "NAME    BUSY  NOTE\na       1     -\nlonger  20    ä: b\n"


def test_json_and_yaml_are_the_same_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(printed(capsys, "json")) == ROWS
    assert yaml.safe_load(printed(capsys, "yaml")) == ROWS


def test_jsonl_and_name_are_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert [json.loads(line) for line in printed(capsys, "jsonl").splitlines()] == ROWS
    assert printed(capsys, "name") == "a\nlonger\n"


def test_one_thing_is_text_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    render.document(ROWS[0], "table", "name", lambda: click.echo("for people"))
    render.document(ROWS[0], "name", "name", lambda: None)
    assert capsys.readouterr().out == "for people\na\n"
