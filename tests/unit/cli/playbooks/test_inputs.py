"""Payloads, single values and credentials of the command line."""

import io
from pathlib import Path

import click
import pytest

from services.cli.console import exits
from services.cli.playbooks import inputs
from tests.support.cli import noetlctl


def test_no_payload_is_an_empty_object() -> None:
    assert inputs.payload(None) == {}


def test_payload_may_be_json_a_file_or_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "p.json"
    file.write_text('{"a": 2}')
    monkeypatch.setattr("sys.stdin", io.StringIO('{"a": 3}'))
    assert [inputs.payload(text) for text in ('{"a": 1}', f"@{file}", "-")] == [{"a": 1}, {"a": 2}, {"a": 3}]


def test_set_goes_on_top_of_the_payload_and_makes_what_is_missing() -> None:
    value = inputs.payload('{"a": {"x": 1}, "b": 1}', ("a.y=2", "b=two", "c.d.e=[1, null]"))
    assert value == {"a": {"x": 1, "y": 2}, "b": "two", "c": {"d": {"e": [1, None]}}}


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ('"1"', "1"), ("true", True), ("a b", "a b"), ("", ""), ("NaN", "NaN"), ("a=b", "a=b")],
)
def test_a_set_value_is_json_if_it_parses_else_text(text: str, value: object) -> None:
    assert inputs.payload(None, (f"k={text}",)) == {"k": value}


@pytest.mark.parametrize("text", ["[1]", "{", "@/does/not/exist", '{"a": NaN}'])
def test_a_bad_payload_is_a_usage_error(text: str) -> None:
    with pytest.raises(click.BadParameter):
        inputs.payload(text)


@pytest.mark.parametrize("item", ["novalue", "=1", "a..b=1", "a.b=1"])
def test_a_bad_set_is_a_usage_error(item: str) -> None:
    with pytest.raises(click.BadParameter):
        inputs.payload('{"a": 1}', (item,))


def test_a_payload_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MAX_INPUT_BYTES", 10)
    with pytest.raises(click.BadParameter, match="over 10 bytes"):
        inputs.payload('{"key": "value"}')


@pytest.mark.parametrize("given", [
    ['a={"token": "s"}', 'b={"token": "hidden"}'], ['={"token": "hidden"}'], ["set", "a={}", "hidden"],
    ["rotate", "a={}", 'b={"token": "hidden"}'], ['a={"token": "hidden"'], ["a=hidden"],
])
def test_no_value_of_a_credential_is_shown_when_it_is_not_taken(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert noetlctl("credential", *given) == exits.USAGE
    said = capsys.readouterr()
    assert ("hidden" in said.out + said.err, bool(said.err)) == (False, True)


def test_a_credential_is_a_name_and_an_object() -> None:
    assert inputs.credential('pg={"user": "a=b"}') == ("pg", {"user": "a=b"})
    with pytest.raises(click.BadParameter):
        inputs.credential("pg")
