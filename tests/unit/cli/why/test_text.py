"""What `why` prints: the same answer as text and as JSON, with every key in its place."""

import re
from datetime import datetime

import click
import pytest

from services.cli.why import text as why_text
from shared.answers.why.facts import CAUSES, Answer, Reason
from shared.answers.why.remedies import remedy
from tests.support.cli import noetlctl
from tests.support.documents import tree

SECTION = tree.PAGE.read_text(encoding="utf-8").split("\n## why\n")[1].split("\n## ")[0]
NOW = datetime.fromisoformat("2026-11-16T12:00:00+00:00")
CHILD = Answer("c1", "running", (Reason("running", "running", "it runs on w1", "start", "start:1"),), "sub/play")
ANSWER = Answer("x1", "running", (
    Reason("limit.places", "blocked", "it waits for a place", "load", "load:1", values={"key": "k", "max": 1},
           since="2026-11-16T11:59:30.000000Z", until="2026-11-16T13:00:00.000000Z",
           remedy=remedy("resume", execution_id="c1"), because=(CHILD,)),
    Reason(
        cause="pool.full", kind="blocked", text="all slots are busy", step="fan", run_id="fan:1", index=0,
        indexes=tuple(range(12)), task="get", attempt=2,
    ),
    Reason("wait.signal", "blocked", "it waits", "one", "one:1", 7),
    Reason("admission.denied", "denied", "step x was not entered", "x"),
), "tests/play", "schedule nightly", "2026-11-16T11:00:00.000000Z", 42)
REASON = ["cause", "kind", "text", "step", "run_id", "index", "indexes", "task", "attempt", "values", "since", "until",
          "remedy", "mover", "because"]


def test_every_key_of_the_shape_is_there_and_documented() -> None:
    shown = why_text.shape(ANSWER)
    assert list(shown) == ["execution_id", "status", "path", "by", "started", "as_of", "reasons"]
    assert [list(reason) for reason in shown["reasons"]] == [REASON] * 4
    assert shown["reasons"][0]["because"] == [why_text.shape(CHILD)]
    assert [reason["index"] for reason in shown["reasons"]] == [None, 0, 7, None]
    assert shown["reasons"][3]["run_id"] is None
    assert [reason["remedy"] for reason in shown["reasons"]] == ["noetlctl resume c1", None, None, None]
    assert [key for key in [*shown, *REASON] if f'"{key}"' not in SECTION] == []


def test_every_cause_is_documented_and_no_other() -> None:
    rows = [line.split("|")[1] for line in SECTION.splitlines() if line.startswith("| `")]
    assert {code for row in rows for code in re.findall(r"`([^`]+)`", row)} == CAUSES


def test_people_get_the_same_in_lines() -> None:
    lines = [click.unstyle(line) for line in why_text.lines(ANSWER, NOW)]
    assert lines[0] == "x1  running  tests/play, started 1h ago by schedule nightly"
    assert lines[1:3] == ["  blocked load:1  [limit.places]", "    it waits for a place"]
    assert "(30s ago), until " in lines[3]
    assert lines[3].endswith("(in 1h)")
    assert lines[4:8] == [
        "    → noetlctl resume c1", "    because of", "      c1  running  sub/play",
        "        running start:1  [running]",
    ]
    assert lines[9] == "  blocked fan:1 iterations 0, 1, 2, 3, 4, 5, 6, 7, 8, 9… task get  [pool.full]"
    assert "  blocked one:1 iteration 7  [wait.signal]" in lines
    assert "  denied step x  [admission.denied]" in lines


def test_wide_adds_the_values() -> None:
    lines = [click.unstyle(line) for line in why_text.lines(ANSWER, NOW, wide=True)]
    assert [line.strip() for line in lines[5:7]] == ['key: "k"', "max: 1"]


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert noetlctl("why", "--help") == 0
    assert "noetlctl why 4f1c" in capsys.readouterr().out
