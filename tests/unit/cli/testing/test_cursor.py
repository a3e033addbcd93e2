"""Rows of a cursor in tests of playbooks: the claim is mocked like any call."""

import json
from pathlib import Path

import pytest

from services.cli.console import exits
from services.cli.main import exit_code

BOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: jobs, path: team/jobs}
workflow:
  - step: start
    loop:
      cursor: {kind: postgres, auth: pg, claim: "SELECT * FROM take_jobs({{ claim.size }})", frame: 2}
      iterator: job
      spec: {mode: parallel, max_in_flight: 4}
    tool: {name: work, kind: http, url: "http://example.invalid/{{ iter.job.id }}"}
"""
TEST = """
apiVersion: noetl.io/v2
kind: Test
playbook: ./jobs.yaml
cases:
  - name: every claimed row is worked on
    mocks:
      - {step: start, task: claim, nth: 1, result: {rows: [{id: 1}, {id: 2}]}}
      - {step: start, task: claim, nth: 2, result: {rows: [{id: 3}]}}
      - {step: start, task: claim, result: {rows: []}}
      - {step: start, task: work, result: {status_code: 200, data: done}}
    expect: {status: completed, calls: {start.work: 3}}
"""


def test_the_claims_of_a_cursor_are_mocked_in_turn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "jobs.yaml").write_text(BOOK)
    (tmp_path / "jobs.test.yaml").write_text(TEST)
    code = exit_code(["test", str(tmp_path), "-o", "json"])
    shown = capsys.readouterr()
    assert code == exits.OK, shown.err + shown.out
    assert json.loads(shown.out)
