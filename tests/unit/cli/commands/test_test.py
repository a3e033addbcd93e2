"""noetlctl test: what it prints, in each format, and what decides the exit code."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as xml

import pytest

from services.cli.commands.test import MAX_SEEDS
from services.cli.console import exits
from tests.support.cli import noetlctl
from tests.unit.answers.playtests.lab import HEAD, SHOP, TEST

Captured = pytest.CaptureFixture[str]
CASES = """
mocks: [{step: pay, result: []}]
cases:
  - name: it is paid
    mocks: [{step: start, result: {price: 7}}]
  - name: it is too dear
    mocks: [{step: start, result: {price: 70}}, {step: refuse, result: "no <&> \\u0007"}]
    expect: {result: %s}
  - name: the shop is closed
    mocks: [{step: start, error: closed}]
    expect: {status: failed}
"""
DEAR = '"no <&> \\u0007"'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "book.yaml").write_text(HEAD + SHOP, encoding="utf-8")
    (tmp_path / "good.test.yaml").write_text(TEST + CASES % DEAR, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def bad(folder: Path) -> str:
    file = folder / "bad.test.yaml"
    file.write_text(TEST + CASES % "yes", encoding="utf-8")
    return file.name


def test_a_line_for_each_case_and_0_when_all_pass(capsys: Captured) -> None:
    assert noetlctl("test") == exits.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "good.test.yaml"
    assert [line.split(" (")[0] for line in lines[1:4]] == [
        "  ✓ it is paid", "  ✓ it is too dear", "  ✓ the shop is closed"]
    assert lines[4].startswith("3 passed in ")


def test_a_failure_shows_what_was_expected_what_came_and_the_path(folder: Path, capsys: Captured) -> None:
    assert noetlctl("test", bad(folder)) == exits.ERROR
    shown = capsys.readouterr().out
    assert "  ✗ it is too dear (" in shown
    assert "      result is not as expected\n        expected  true\n        got       \"no <&> \\u0007\"\n" in shown
    assert "      path taken: start → refuse; completed after 0 s\n" in shown
    assert "2 passed, 1 failed in " in shown


def test_an_invalid_file_is_told_and_ends_with_3(folder: Path, capsys: Captured) -> None:
    (folder / "broken.test.yaml").write_text(TEST + "cases: [{name: a, expect: {path: [strat]}}]", encoding="utf-8")
    assert noetlctl("test") == exits.INVALID
    shown = capsys.readouterr()
    assert shown.err == ("broken.test.yaml:4:35: error DSL411: playbook 'shop' has no step 'strat' "
                         "(did you mean start?)\n")
    assert "✗ not valid" in shown.out
    assert "3 passed, 1 not valid in " in shown.out


def test_a_playbook_that_does_not_compile_makes_its_test_invalid(folder: Path, capsys: Captured) -> None:
    (folder / "book.yaml").write_text(HEAD + SHOP.replace("step: refuse\n", "step: refused\n"), encoding="utf-8")
    assert noetlctl("test") == exits.INVALID
    told = "DSL413: playbook 'book.yaml' cannot be used: 1 error, the first on line 23: there is no step 'refuse'"
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(("args", "says"), [
    (["nosuch.test.yaml"], "cannot read nosuch.test.yaml"), (["-k", "nothing like it"], "no case has"),
    (["--faults", "fire"], "'fire' is none of crash, dup, reorder"), (["--seeds", "0"], "--seeds"),
    (["--coverage-min", "101"], "--coverage-min"), (["--seeds", str(MAX_SEEDS + 1)], "--seeds"),
])
def test_usage_errors_end_with_2(args: list[str], says: str, capsys: Captured) -> None:
    assert noetlctl("test", *args) == exits.USAGE
    assert says in capsys.readouterr().err


def test_a_folder_without_tests_is_a_usage_error(folder: Path, capsys: Captured) -> None:
    (folder / "empty").mkdir()
    assert noetlctl("test", "empty") == exits.USAGE
    assert "no *.test.yaml in empty" in capsys.readouterr().err


def test_tests_in_hidden_folders_are_left_alone_and_each_file_runs_once(folder: Path, capsys: Captured) -> None:
    (folder / ".venv").mkdir()
    (folder / ".venv" / "other.test.yaml").write_text("nonsense", encoding="utf-8")
    assert noetlctl("test", ".", "good.test.yaml") == exits.OK
    assert capsys.readouterr().out.count("good.test.yaml") == 1


def test_there_is_a_limit_of_files(monkeypatch: pytest.MonkeyPatch, folder: Path, capsys: Captured) -> None:
    bad(folder)
    monkeypatch.setattr("services.cli.testing.suites.MAX_FILES", 1)
    assert noetlctl("test") == exits.USAGE
    assert "2 test files, over the limit of 1" in capsys.readouterr().err


def test_k_selects_cases_and_fail_fast_stops_at_the_first_failure(folder: Path, capsys: Captured) -> None:
    assert noetlctl("test", "-k", "DEAR") == exits.OK
    assert "1 passed" in capsys.readouterr().out
    bad(folder)
    assert noetlctl("test", "--fail-fast") == exits.ERROR
    shown = capsys.readouterr().out
    assert "1 passed, 1 failed" in shown
    assert "good.test.yaml" not in shown


def test_json_has_the_documented_shape(folder: Path, capsys: Captured) -> None:
    assert noetlctl("test", bad(folder), "-o", "json", "--coverage", "--faults", "crash", "--seeds", "2") == exits.ERROR
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert {key: found[key] for key in ("passed", "cases", "failed", "invalid")} == {
        "passed": False, "cases": 3, "failed": 1, "invalid": 0}
    assert list(found) == ["passed", "cases", "failed", "invalid", "seconds", "files", "coverage"]
    (file,) = found["files"]
    assert list(file) == ["file", "playbook", "valid", "diagnostics", "cases", "warnings"]
    paid, dear, _ = file["cases"]
    assert list(paid) == ["name", "line", "passed", "seconds", "got", "failures", "explored"]
    assert list(paid["got"]) == [
        "status", "reason", "path", "steps", "ctx", "result", "error", "calls", "elapsed", "workload"]
    assert list(paid["explored"]) == ["runs", "crashes", "again", "findings"]
    assert paid["got"]["calls"] == {"pay.pay_task": 3, "start.price": 1}
    assert dear["failures"] == [{"what": "result", "message": "result is not as expected", "expected": True,
                                 "got": "no <&> \u0007", "mock": None, "call": None, "seed": None}]
    (covered,) = found["coverage"]
    assert covered["arcs"] == {"reached": 2, "total": 2}
    assert covered["task_rules"] == {"reached": 2, "total": 3}
    assert (covered["playbook"], covered["file"], covered["percent"]) == ("shop", "book.yaml", 87.5)
    assert [(each["kind"], each["line"]) for each in covered["parts"] if not each["times"]] == [("rule", 15)]
    assert covered["parts"][0] == {"kind": "step", "step": "start", "line": 7, "what": "step start", "times": 3}


def test_yaml_is_the_same_as_json(capsys: Captured) -> None:
    assert noetlctl("test", "-o", "yaml") == exits.OK
    assert "passed: true\ncases: 3\nfailed: 0\n" in capsys.readouterr().out


@pytest.mark.parametrize("to_file", [True, False])
def test_junit_is_xml_that_ci_reads(folder: Path, to_file: bool, capsys: Captured) -> None:
    (folder / "broken.test.yaml").write_text("kind: Test", encoding="utf-8")
    bad(folder)
    assert noetlctl("test", *(["--junit", "out.xml"] if to_file else ["-o", "junit"])) == exits.INVALID
    shown = capsys.readouterr().out
    root = xml.fromstring((folder / "out.xml").read_text(encoding="utf-8") if to_file else shown)
    assert (root.tag, root.get("tests"), root.get("failures"), root.get("errors")) == ("testsuites", "7", "1", "1")
    suites = {suite.get("name"): suite for suite in root}
    assert set(suites) == {"bad.test.yaml", "broken.test.yaml", "good.test.yaml"}
    failed = suites["bad.test.yaml"].find("testcase[@name='it is too dear']/failure")
    assert failed is not None
    assert (failed.get("type"), failed.get("message")) == ("result", "result is not as expected")
    assert "path taken: start → refuse" in (failed.text or "")
    error = suites["broken.test.yaml"].find("testcase/error")
    assert error is not None
    assert "DSL202" in (error.text or "")
    assert all(float(case.get("time", "x")) >= 0 for case in root.iter("testcase"))


def test_coverage_names_what_was_never_reached_and_the_least_decides(capsys: Captured) -> None:
    assert noetlctl("test", "--coverage", "-k", "paid") == exits.OK
    shown = capsys.readouterr().out
    assert "book.yaml  2/3    1/2   -                1/3         -              50 %" in shown
    assert "book.yaml:23: never reached: arc start → refuse when event.name == 'step.done'\n" in shown
    assert noetlctl("test", "--coverage-min", "50", "-k", "paid") == exits.OK
    assert noetlctl("test", "--coverage-min", "80", "-k", "paid", "-o", "json") == exits.ERROR
    assert capsys.readouterr().err == "noetlctl: book.yaml is covered to 50 %, less than 80 %\n"


def test_faults_say_how_many_seeds_and_which_calls_came_twice(capsys: Captured) -> None:
    assert noetlctl("test", "--faults", "crash,dup,reorder", "--seeds", "30", "-k", "paid") == exits.OK
    shown = capsys.readouterr().out
    assert " s, 30 seeds)" in shown
    assert "called again after a fault: pay.pay_task (" in shown


def test_a_missing_mock_is_shown_ready_to_paste(folder: Path, capsys: Captured) -> None:
    (folder / "good.test.yaml").write_text(TEST + "cases: [{name: forgotten}]", encoding="utf-8")
    assert noetlctl("test") == exits.ERROR
    assert """\
      no mock answers start.price (http), attempt 1
      it would be called with
          url: http://shop/10
      add to mocks:
          - step: start
            task: price
            result:
              status_code: 200
              data: {}
""" in capsys.readouterr().out


def test_programs_run_for_real_where_a_test_says_so(folder: Path, capsys: Captured) -> None:
    (folder / "book.yaml").write_text(HEAD + """
metadata: {name: sum, path: sum}
workload: {n: 2}
workflow:
  - step: start
    loop: {in: [1, 2, 3], iterator: i}
    tool: {kind: python, args: {a: "{{ iter.i }}", n: "{{ workload.n }}"}, code: "result = a * n"}
""", encoding="utf-8")
    test = TEST + "run: [python]\ncases: [{name: a, expect: {result: [2, 4, 6]}}]"
    (folder / "a.test.yaml").write_text(test, encoding="utf-8")
    assert noetlctl("test", "a.test.yaml", "--faults", "crash,reorder") == exits.OK
    assert "1 passed" in capsys.readouterr().out


def test_sql_and_shell_run_for_real_where_a_test_says_so(folder: Path, capsys: Captured) -> None:
    (folder / "book.yaml").write_text(HEAD + """
metadata: {name: real, path: real}
workload: {n: 3}
workflow:
  - step: start
    tool:
      - {name: sql, kind: duckdb, command: "SELECT {{ workload.n }} * 2 AS d"}
      - {name: sh, kind: shell, cmds: "echo {{ _prev.rows[0].d }}"}
""", encoding="utf-8")
    test = "run: [duckdb, shell]\ncases: [{name: a, expect: {that: ['{{ result.stdout | trim == \"6\" }}']}}]"
    (folder / "good.test.yaml").write_text(TEST + test, encoding="utf-8")
    assert noetlctl("test") == exits.OK, capsys.readouterr().out


def test_a_program_that_runs_for_real_has_a_limited_time(
    monkeypatch: pytest.MonkeyPatch, folder: Path, capsys: Captured
) -> None:
    monkeypatch.setattr("services.cli.testing.real_tools.TIMEOUT_S", 0.2)
    (folder / "good.test.yaml").write_text(
        TEST + "run: [python]\nmocks: [{step: start, result: {price: 70}}]\n"
        "cases: [{name: a, expect: {error: {kind: timeout}}}]", encoding="utf-8")
    slow = SHOP.replace("result = 'too dear'", "import time; time.sleep(60)")
    (folder / "book.yaml").write_text(HEAD + slow, encoding="utf-8")
    assert noetlctl("test") == exits.OK, capsys.readouterr().out


def test_validate_takes_tests_too(capsys: Captured) -> None:
    assert noetlctl("validate", "good.test.yaml", "book.yaml") == exits.OK
    assert "good.test.yaml: valid, test of book.yaml, 3 cases\n" in capsys.readouterr().out
