"""noetlctl trace and diff for people and for programs, from histories told by hand."""

import json

import pytest

from services.cli.commands import diff, trace
from services.cli.console import gantt, render
from shared.answers.diff.shape import compare, side
from shared.answers.trace.critical_path import trace as traced
from shared.answers.trace.shape import told
from shared.answers.trace.spans import PARTS
from shared.events import model as ev
from tests.unit.answers.diff.test_compare import choice
from tests.unit.answers.tale import EXECUTION, T0, Tale, done, lease

UNIT = {"status", "start_us", "scheduled_us", "end_us", "attempts", "leases", "parts_us", "spans"}
SPAN = {"part", "run_id", "index", "start_us", "end_us", "about"}


def loop(count: int = 4) -> Tale:
    tale = Tale().begin("a", loop=True)
    tale.at(0.1, "scheduler", ev.LoopStarted("a:1", "a", count, max_in_flight=count),
            ev.IterationStarted("a:1", 0, count))
    for index in range(count):
        events = (ev.StepStarted(), done(took=0.4 + index), ev.IterationDone())
        tale.work(0.6 + index, lease("a:1", 0.1, index), *events)
    return tale.at(9.0, "scheduler", ev.LoopDone("a:1", "a", count=count)).end(10.0, "a:1")


def test_json_of_a_trace_has_a_stable_shape() -> None:
    found = json.loads(json.dumps(told(traced(EXECUTION, loop().entries, T0))))
    assert set(found) == {
        "execution_id", "path", "status", "finished", "started", "ended", "wall_us", "parts_us", "work_us", "top",
        "critical_path", "runs",
    }
    assert (set(found["parts_us"]), set(found["work_us"])) == (set(PARTS), set(PARTS))
    assert sum(found["parts_us"].values()) == found["wall_us"] == 10_000_000
    run = found["runs"][0]
    assert set(run) == UNIT | {"run_id", "step", "cause", "loop", "iterations"}
    assert set(run["loop"]) == {"iterations", "p50_us", "p95_us", "max_us", "slowest"}
    assert set(run["iterations"][0]) == UNIT | {"index"}
    assert {frozenset(span) for span in found["critical_path"]} == {frozenset(SPAN)}
    assert set(found["top"][0]) == {"step", "part", "took_us"}


def test_trace_in_a_pipe_is_plain_ascii_and_one_bar_per_run(capsys: pytest.CaptureFixture[str]) -> None:
    trace.show(told(traced(EXECUTION, loop().entries, T0)))
    text = capsys.readouterr().out
    assert text.isascii()
    assert text.startswith("x1 tests/tale completed: 10.00 s\n")
    bars = [line for line in text.splitlines() if "|" in line]
    assert len(bars) == 1
    assert bars[0].startswith("a x4 |")
    assert "####" in bars[0]
    assert "a:1: 4 iterations, p50 1.50 s, p95 3.50 s, max 3.50 s; slowest [3] 3.50 s" in text
    assert "100 %" not in text


def test_chart_of_many_runs_shows_the_longest(capsys: pytest.CaptureFixture[str]) -> None:
    steps = [f"s{k}" for k in range(trace.MAX_RUNS + 5)]
    trace.show(told(traced(EXECUTION, Tale().begin(*steps).entries, T0 + 5)))
    shown = capsys.readouterr()
    assert sum("|" in line for line in shown.out.splitlines()) == trace.MAX_RUNS
    assert f"runs of {len(steps)} that took longest" in shown.err
    assert "up to now" in shown.out


def test_cell_is_what_most_of_it_went_to() -> None:
    spans = [
        {"part": "queue", "start_us": 0, "end_us": 30}, {"part": "run", "start_us": 30, "end_us": 100},
    ]
    (line,) = gantt.chart([("a", spans, "")], 200, gantt.MIN_BAR + gantt.TAIL + 5, colour=False)
    assert line == "a |" + "qqq" + "#" * 7 + " " * 10 + "| "
    (line,) = gantt.chart([("a", spans, "")], 200, gantt.MIN_BAR + gantt.TAIL + 5, colour=True)
    assert (line.count(gantt.BLOCK), line.count("\x1b[32m")) == (10, 1)


@pytest.mark.parametrize(("micros", "text"), [
    (0, "0.0 ms"), (1500, "1.5 ms"), (2_340_000, "2.34 s"), (125_000_000, "2 min 5 s"), (7_260_000_000, "2 h 1 min"),
])
def test_times_for_people(micros: int, text: str) -> None:
    assert gantt.took(micros) == text


def test_json_of_a_comparison_has_a_stable_shape() -> None:
    found = json.loads(json.dumps(compare(side("x1", choice("b").entries, T0), side("x2", choice("c", 9).entries, T0))))
    assert set(found) == {
        "a", "b", "same", "same_path", "same_playbook", "payload", "workload", "divergence", "first_value", "runs",
        "ctx", "result",
    }
    assert set(found["a"]) == {"execution_id", "path", "version", "digest", "status", "started", "wall_us"}
    assert set(found["divergence"]) == {"what", "run_id", "index", "a", "b"}
    assert set(found["first_value"]) == {"what", "seq_a", "seq_b", "changes"}
    assert set(found["first_value"]["changes"][0]) == {"path", "a", "b", "in_a", "in_b"}
    assert set(found["runs"][0]) == {"run_id", "step", "in", "a", "b", "factor"}
    assert set(found["runs"][0]["a"]) == {"status", "took_us", "attempts", "leases", "iterations", "failed"}


def test_text_of_a_comparison_says_where_they_part(capsys: pytest.CaptureFixture[str]) -> None:
    other = choice("c", value=9, slow=1.0)
    diff.show(compare(side("x1", choice("b").entries, T0), side("x2", other.entries, T0)))
    text = capsys.readouterr().out
    assert "They part here: run a:1 ends" in text
    assert 'a  at sequence 3: event "step.done", arcs ["b"]' in text
    assert "The first value that differs: a:1: task 1 (work)\n  result: 1 -> 9\n" in text
    assert "b:1  done      -" in text


def test_long_values_are_cut_in_text_alone(capsys: pytest.CaptureFixture[str]) -> None:
    one, two = choice("b"), choice("b", value="x" * 5000)  # type: ignore[arg-type]  # any value
    found = compare(side("x1", one.entries, T0), side("x2", two.entries, T0))
    diff.show(found)
    assert "… (5002 characters)" in capsys.readouterr().out
    render.value(found, "json")
    assert "x" * 5000 in capsys.readouterr().out
