"""noetlctl validate: several files, three ways to print, and what decides the exit code."""

import json
from pathlib import Path

import pytest

from services.cli.console import exits
from shared.dsl.model.diagnostic_codes import CODES
from tests.support.cli import noetlctl
from tests.support.examples import HELLO
from tests.support.paths import ROOT

THREE = str(ROOT / "tests" / "unit" / "dsl" / "check" / "faulty" / "deadlock_growth_and_shadow.yaml")
BROKEN = str(ROOT / "tests" / "unit" / "dsl" / "broken" / "arc_to_nowhere.yaml")
FORMAL = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: formal}
workflow:
  - step: start
    tool: {kind: noop}
    next: end
  - step: end
"""


def test_a_clean_playbook_is_valid(capsys: pytest.CaptureFixture[str]) -> None:
    assert noetlctl("validate", HELLO) == exits.OK
    shown = capsys.readouterr()
    assert "hello.yaml: valid, 4 steps" in shown.out
    assert shown.err == ""


def test_deadlock_unbounded_cycle_and_shadowed_arc_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert noetlctl("validate", THREE) == exits.OK
    told = capsys.readouterr().err
    assert [code for code in ("DSL904", "DSL907", "DSL908") if code not in told] == []
    assert "'left', 'right' can wait for each other" in told
    assert "put tokens on 'report' again and again" in told
    assert "the arc to 'mail' is shadowed" in told


def test_one_file_that_cannot_run_decides_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert noetlctl("validate", HELLO, BROKEN, THREE) == exits.INVALID
    shown = capsys.readouterr()
    assert shown.out.count(": valid, ") == 2
    assert "arc_to_nowhere.yaml" in shown.err


def test_json_is_one_object_for_all_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert noetlctl("validate", "-o", "json", BROKEN, THREE) == exits.INVALID
    found = json.loads(capsys.readouterr().out)
    assert found["valid"] is False
    assert {Path(each["file"]).name for each in found["diagnostics"]} == {Path(BROKEN).name, Path(THREE).name}
    assert all(each["line"] and each["column"] and each["fix"] for each in found["diagnostics"])


def test_strict_refuses_the_formal_dialect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "formal.yaml"
    file.write_text(FORMAL, encoding="utf-8")
    assert noetlctl("validate", str(file)) == exits.OK
    assert noetlctl("validate", "--strict", str(file)) == exits.INVALID
    assert "error DSL301" in capsys.readouterr().err


def test_no_file_at_all_is_a_usage_error() -> None:
    assert noetlctl("validate") == exits.USAGE
    assert noetlctl("validate", "nosuch.yaml") == exits.USAGE


def test_sarif_names_rules_places_and_levels(capsys: pytest.CaptureFixture[str]) -> None:
    assert noetlctl("validate", "-o", "sarif", BROKEN, THREE, HELLO) == exits.INVALID
    log = json.loads(capsys.readouterr().out)
    assert set(log) == {"$schema", "version", "runs"}
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "noetlctl"
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(ids) == len(set(ids))
    for rule in driver["rules"]:
        assert rule["shortDescription"]["text"] == CODES[rule["id"]].title
        assert rule["fullDescription"]["text"] == CODES[rule["id"]].doc
    assert {"error", "warning"} == {result["level"] for result in run["results"]}
    for result in run["results"]:
        assert set(result) == {"ruleId", "ruleIndex", "level", "message", "locations"}
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["message"]["text"]
        (location,) = result["locations"]
        place = location["physicalLocation"]
        assert place["artifactLocation"]["uri"].endswith(".yaml")
        assert "\\" not in place["artifactLocation"]["uri"]
        assert place["region"]["startLine"] >= 1
        assert place["region"]["startColumn"] >= 1


def test_sarif_of_clean_files_has_no_results(capsys: pytest.CaptureFixture[str]) -> None:
    assert noetlctl("validate", "-o", "sarif", HELLO) == exits.OK
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["results"] == run["tool"]["driver"]["rules"] == []
