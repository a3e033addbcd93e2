"""noetlctl init, graph, explain and schema."""

import json
from pathlib import Path

import pytest

from services.cli import exits
from tests.unit.cli.test_main import call

HELLO = str(Path(__file__).parents[3] / "examples" / "hello.yaml")


def test_init_writes_a_playbook_that_validates_and_its_schema(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("init", "first", "--folder", str(tmp_path / "new")) == exits.OK
    file = tmp_path / "new" / "first.yaml"
    assert "noetlctl run" in capsys.readouterr().out
    header = file.read_text(encoding="utf-8").splitlines()[0]
    assert header.startswith("# yaml-language-server: $schema=")
    assert json.loads((file.parent / header.partition("=")[2]).read_text(encoding="utf-8"))["$defs"]
    assert call("validate", "--strict", str(file)) == exits.OK
    assert capsys.readouterr().err == ""


def test_init_does_not_overwrite_a_playbook(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.yaml").write_text("precious", encoding="utf-8")
    assert call("init", "mine", "--folder", str(tmp_path)) == exits.USAGE
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "mine.yaml").read_text(encoding="utf-8") == "precious"


def test_init_refuses_what_is_not_a_name(tmp_path: Path) -> None:
    assert call("init", "../up", "--folder", str(tmp_path)) == exits.USAGE
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("output", "first"), [("mermaid", "flowchart TD"), ("dot", "digraph"), ("svg", "<svg")])
def test_graph_draws_a_playbook(output: str, first: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("graph", HELLO, "-o", output) == exits.OK
    shown = capsys.readouterr().out
    assert shown.startswith(first)
    assert all(step in shown for step in ("start", "greet", "collect", "nobody"))


def test_graph_of_an_invalid_playbook_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "empty.yaml"
    file.write_text("{}", encoding="utf-8")
    assert call("graph", str(file)) == exits.INVALID
    assert "DSL202" in capsys.readouterr().err


def test_explain_prints_a_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("explain", "step.spec.policy.admit") == exits.OK
    assert "Whether a token that comes here is let in." in capsys.readouterr().out


def test_explain_of_an_unknown_key_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("explain", "step.tol") == exits.USAGE
    assert capsys.readouterr().err == "noetlctl: there is no step.tol: did you mean tool?\n"


def test_schema_prints_json_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("schema") == exits.OK
    found = json.loads(capsys.readouterr().out)
    assert found["$schema"].startswith("https://json-schema.org/")
    assert "http" in found["$defs"]["task"]["properties"]["kind"]["enum"]
