"""noetlctl init, graph, explain and schema."""

import json
from pathlib import Path

import pytest
import yaml

from services.cli.console import exits
from services.cli.playbooks import examples
from tests.support.cli import noetlctl
from tests.support.examples import HELLO


def test_init_writes_a_playbook_that_validates_and_its_schema(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert noetlctl("init", "first", "--folder", str(tmp_path / "new")) == exits.OK
    file = tmp_path / "new" / "first.yaml"
    assert "noetlctl run" in capsys.readouterr().out
    header = file.read_text(encoding="utf-8").splitlines()[0]
    assert header.startswith("# yaml-language-server: $schema=")
    assert json.loads((file.parent / header.partition("=")[2]).read_text(encoding="utf-8"))["$defs"]
    assert noetlctl("validate", "--strict", str(file)) == exits.OK
    assert capsys.readouterr().err == ""


def test_init_writes_a_test_that_passes_and_its_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert noetlctl("init", "first", "--folder", str(tmp_path)) == exits.OK
    file = tmp_path / "first.test.yaml"
    header = file.read_text(encoding="utf-8").splitlines()[0]
    assert json.loads((tmp_path / header.partition("=")[2]).read_text(encoding="utf-8"))["$defs"]["mock"]
    assert noetlctl("test", str(tmp_path), "--coverage-min", "100", "--faults", "crash,dup,reorder") == exits.OK
    shown = capsys.readouterr()
    assert "2 passed in " in shown.out
    assert shown.err == ""


@pytest.mark.parametrize(("ci", "place"), [("github", ".github/workflows/playbooks.yml"), ("gitlab", ".gitlab-ci.yml")])
def test_init_writes_a_job_for_ci_at_the_root_of_the_repository(ci: str, place: str, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert noetlctl("init", "first", "--folder", str(tmp_path / "flows"), "--ci", ci) == exits.OK
    job = yaml.safe_load((tmp_path / place).read_text(encoding="utf-8"))
    assert any("noetlctl test . " in str(part) for part in job.values())
    assert not (tmp_path / "flows" / place).exists()


def test_init_leaves_a_job_alone_and_writes_none_where_none_is_wanted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".gitlab-ci.yml").write_text("mine: {}", encoding="utf-8")
    assert noetlctl("init", "first", "--folder", str(tmp_path), "--ci", "gitlab") == exits.OK
    assert f"left {tmp_path / '.gitlab-ci.yml'} as it is" in capsys.readouterr().out
    assert (tmp_path / ".gitlab-ci.yml").read_text(encoding="utf-8") == "mine: {}"
    assert noetlctl("init", "second", "--folder", str(tmp_path), "--ci", "none") == exits.OK
    assert not (tmp_path / ".github").exists()


def test_init_does_not_overwrite_a_test(tmp_path: Path) -> None:
    (tmp_path / "mine.test.yaml").write_text("precious", encoding="utf-8")
    assert noetlctl("init", "mine", "--folder", str(tmp_path)) == exits.USAGE
    assert [file.name for file in tmp_path.iterdir()] == ["mine.test.yaml"]


def test_init_does_not_overwrite_a_playbook(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.yaml").write_text("precious", encoding="utf-8")
    assert noetlctl("init", "mine", "--folder", str(tmp_path)) == exits.USAGE
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "mine.yaml").read_text(encoding="utf-8") == "precious"


def test_init_refuses_what_is_not_a_name(tmp_path: Path) -> None:
    assert noetlctl("init", "../up", "--folder", str(tmp_path)) == exits.USAGE
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("output", "first"), [("mermaid", "flowchart TD"), ("dot", "digraph"), ("svg", "<svg")])
def test_graph_draws_a_playbook(output: str, first: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert noetlctl("graph", HELLO, "-o", output) == exits.OK
    shown = capsys.readouterr().out
    assert shown.startswith(first)
    assert all(step in shown for step in ("start", "greet", "collect", "nobody"))


def test_graph_of_an_invalid_playbook_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "empty.yaml"
    file.write_text("{}", encoding="utf-8")
    assert noetlctl("graph", str(file)) == exits.INVALID
    assert "DSL202" in capsys.readouterr().err


def test_explain_prints_a_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert noetlctl("explain", "step.spec.policy.admit") == exits.OK
    assert "Whether a token that comes here is let in." in capsys.readouterr().out


def test_explain_of_an_unknown_key_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert noetlctl("explain", "step.tol") == exits.USAGE
    assert capsys.readouterr().err == "noetlctl: there is no step.tol: did you mean tool?\n"


def test_schema_prints_json_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert noetlctl("schema") == exits.OK
    found = json.loads(capsys.readouterr().out)
    assert found["$schema"].startswith("https://json-schema.org/")
    assert "http" in found["$defs"]["task"]["properties"]["kind"]["enum"]
    assert noetlctl("schema", "--kind", "test") == exits.OK
    assert "mock" in json.loads(capsys.readouterr().out)["$defs"]


@pytest.mark.parametrize("name", examples.names())
def test_init_writes_an_example(name: str, tmp_path: Path, capsys) -> None:
    place = tmp_path / "new"
    assert noetlctl("init", "--example", name, "--folder", str(place)) == exits.OK
    assert {file.name: file.read_bytes() for file in place.iterdir()} == {
        file.name: file.read_bytes() for file in examples.files(name)
    }
    assert capsys.readouterr().out.endswith(f"try: cd {place} && {examples.command(name)}\n")
    assert noetlctl("validate", *(str(file) for file in sorted(place.glob("*.yaml")))) == exits.OK
    assert capsys.readouterr().err == ""


def test_init_leaves_what_is_there_alone_and_writes_nothing_of_an_example(tmp_path: Path, capsys) -> None:
    (tmp_path / "run.sh").write_text("mine")
    assert noetlctl("init", "--example", "approval", "--folder", str(tmp_path)) == exits.USAGE
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("run.sh", "mine")]
    assert "run.sh exists already; choose another --folder" in capsys.readouterr().err


@pytest.mark.parametrize("asked", [(), ("first", "--example", "pages")])
def test_init_wants_a_name_or_an_example(asked: tuple[str, ...], capsys) -> None:
    assert noetlctl("init", *asked) == exits.USAGE
    assert "or --example and one of: api_to_postgres, approval, " in capsys.readouterr().err
