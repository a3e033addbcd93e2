"""Progress is drawn from the folded summary: lines for pipes, a tree for terminals."""

import io

import pytest

from services.cli.executions import display
from services.cli.executions.display import Lines, Tree, describe
from shared.answers.history.summary import LoopProgress, StepSummary, Summary


@pytest.fixture
def summary() -> Summary:
    found = Summary("e1")
    found.path, found.status = "examples/x", "running"
    found.steps = {
        "a": StepSummary("a", runs=1, status="done"),
        "b": StepSummary("b", runs=2, status="running", loop=LoopProgress(total=10, done=3, failed=1)),
        "c": StepSummary("c", runs=1, status="scheduled"),
    }
    return found


def test_a_step_is_described_with_runs_loop_task_and_attempt() -> None:
    loop = StepSummary("b", runs=2, status="running", loop=LoopProgress(total=10, done=3, failed=1))
    assert describe(loop) == "b (run 2) 4/10, 1 failed"
    assert describe(StepSummary("a", 1, "running", task="fetch", attempt=3)) == "a fetch, attempt 3"


def test_lines_say_each_change_once(summary: Summary) -> None:
    out = io.StringIO()
    lines = Lines(out)
    lines.update(summary)
    lines.update(summary)
    assert out.getvalue().splitlines() == ["✓ a", "▶ b (run 2) 4/10, 1 failed", "  e1 running"]
    summary.steps["b"].status = "done"
    lines.update(summary)
    assert out.getvalue().splitlines()[-1] == "✓ b (run 2) 4/10, 1 failed"


def test_a_loop_gets_a_line_now_and_then(summary: Summary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "LOOP_LINE_EVERY_S", 0.0)
    out = io.StringIO()
    lines = Lines(out)
    for done in (3, 4):
        summary.steps["b"].loop = LoopProgress(total=10, done=done)
        lines.update(summary)
    assert [line for line in out.getvalue().splitlines() if " b " in line] == ["▶ b (run 2) 3/10", "▶ b (run 2) 4/10"]


def test_a_terminal_gets_the_tree_with_names_taken_literally(summary: Summary) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    summary.steps["[red]"] = StepSummary("[red]", runs=1, status="failed")
    tree = display.choose(out)
    assert isinstance(tree, Tree)
    tree.update(summary)
    tree.close()
    assert "examples/x e1 running" in out.getvalue()
    assert "✗ [red]" in out.getvalue()
