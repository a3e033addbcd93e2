"""Two executions side by side."""

from typing import Any

from shared.answers.diff.changes import changes, plain
from shared.answers.diff.shape import compare, side
from shared.events import model as ev
from shared.events.outcome import Ref, Result, failed
from tests.unit.answers.histories import CHAIN, FAN, PARALLEL, RETRY, change, history
from tests.unit.answers.tale import EXECUTION, T0, Tale, done, entered, lease, retried, timed


def compared(a: Tale, b: Tale) -> dict[str, Any]:
    return compare(side(EXECUTION, a.entries, T0 + 100), side("x2", b.entries, T0 + 100))


def choice(arc: str, value: int = 1, took: float = 0.1, slow: float = 0.0) -> Tale:
    """Step a, whose value takes it to the one or the other step."""
    tale = Tale().begin("a")
    left = Result(value)
    tale.work(took, lease("a:1", 0.0), ev.StepStarted(), done(took=took, result=value), ev.StepDone(left))
    tale.at(took, "router", ev.NextSelected("a:1", "a", "step.done", (arc,)),
            ev.TokenCreated("t2", arc, {}, "a:1"), entered(arc, "t2"))
    end = took + 1 + slow
    tale.work(end, lease(f"{arc}:1", took), ev.StepStarted(), done(took=1 + slow, result=2), ev.StepDone(Result(2)))
    return tale.at(end, "router", ev.NextSelected(f"{arc}:1", arc, "step.done"), ev.WorkflowFinished(),
                   ev.PlaybookProcessed("completed", Result(2)))


def test_same_way_and_result_is_the_same_whatever_the_times() -> None:
    found = compared(choice("b"), choice("b", slow=1.0))
    assert (found["same"], found["same_path"], found["divergence"], found["first_value"]) == (True, True, None, None)
    assert [(run["run_id"], run["factor"]) for run in found["runs"]] == [("a:1", 1.0), ("b:1", 2.0)]


def test_arc_that_was_taken_otherwise_is_the_first_divergence_with_what_led_to_it() -> None:
    found = compared(choice("b"), choice("c", value=9))
    assert (found["same"], found["same_path"]) == (False, False)
    apart = found["divergence"]
    assert (apart["what"], apart["run_id"]) == ("run a:1 ends", "a:1")
    assert (apart["a"]["arcs"], apart["b"]["arcs"]) == (["b"], ["c"])
    assert found["first_value"]["what"] == "a:1: task 1 (work)"
    assert found["first_value"]["changes"] == [{"path": "result", "a": 1, "b": 9, "in_a": True, "in_b": True}]
    assert [(run["run_id"], run["in"]) for run in found["runs"]] == [("a:1", "both"), ("b:1", "a"), ("c:1", "b")]


def test_other_values_on_the_same_way_are_told_and_not_the_same_when_the_result_differs() -> None:
    a, b = choice("b"), choice("b", value=3)
    found = compared(a, b)
    assert (found["same"], found["same_path"]) == (True, True)
    assert found["first_value"]["changes"][0]["path"] == "result"
    other = change(b.entries, ev.PlaybookProcessed, result=Result({"n": 1}))
    b.entries = other
    found = compared(a, b)
    assert (found["same"], found["same_path"]) == (False, True)
    assert found["result"] == [{"path": "result", "a": 2, "b": {"n": 1}, "in_a": True, "in_b": True}]


def test_attempts_are_compared_task_by_task() -> None:
    def tale(tries: int) -> Tale:
        held, told = lease("a:1", 0.0), Tale().begin("a")
        told.work(0.1, held, ev.StepStarted(), *(retried(attempt=k) for k in range(1, tries)))
        told.work(0.2, held, done(attempt=tries), ev.StepDone())
        return told.end(0.3, "a:1")

    found = compared(tale(2), tale(3))
    assert found["divergence"]["what"] == "a:1: task 2 (work)"
    assert (found["divergence"]["a"]["do"], found["divergence"]["b"]["do"]) == ("continue", "retry")
    assert [(run["a"]["attempts"], run["b"]["attempts"]) for run in found["runs"]] == [(2, 3)]


def test_failed_task_shows_its_error_on_both_sides() -> None:
    def tale(message: str) -> Tale:
        wrong = timed(failed("broken", message), 0.1)
        events = (ev.StepStarted(), ev.TaskDone("work", 1, wrong, "fail"), ev.StepFailed(wrong.error or {}))
        told = Tale().begin("a").work(0.1, lease("a:1", 0.0), *events)
        return told.at(0.2, "router", ev.NextSelected("a:1", "a", "step.failed"), ev.WorkflowFinished("failed"),
                       ev.PlaybookProcessed("failed", None, wrong.error))

    found = compared(tale("one"), tale("two"))
    assert (found["same"], found["first_value"]["changes"][0]["path"]) == (True, "error.message")
    found = compared(tale("one"), choice("b"))
    assert (found["divergence"]["a"]["status"], found["divergence"]["b"]["status"]) == ("error", "ok")


def test_order_of_what_runs_side_by_side_is_no_difference() -> None:
    a, b = history(FAN), history(FAN)
    there = {event.run_id: k for k, (_, record) in enumerate(b) for event in record.events
             if isinstance(event, ev.StepScheduled)}
    held = [(k, record.lease) for k, (_, record) in enumerate(b) if record.lease is not None]
    first, last = next((one, two) for one, a_lease in held for two, b_lease in held
                       if a_lease.run_id != b_lease.run_id and there[b_lease.run_id] < one < two)
    b[first], b[last] = (b[first][0], b[last][1]), (b[last][0], b[first][1])
    assert compare(side(FAN, a, T0), side(FAN, b, T0))["same_path"]


def test_every_history_is_the_same_as_itself() -> None:
    for execution_id in (CHAIN, FAN, PARALLEL, RETRY):
        found = compare(*(side(execution_id, history(execution_id), T0) for _ in "ab"))
        assert found["same"], execution_id


def test_iterations_are_aligned_by_index() -> None:
    other = change(history(PARALLEL), ev.IterationDone, 1, result=Result("other"))
    found = compare(side(PARALLEL, history(PARALLEL), T0), side(PARALLEL, other, T0))
    assert found["first_value"]["what"].startswith("iteration start:1[")
    assert found["runs"][0]["a"]["iterations"] == found["runs"][0]["b"]["iterations"] > 0


def test_changes_lead_to_the_place() -> None:
    a, b = {"x": 1, "l": [1, {"y": 2}], "gone": 0}, {"x": 1, "l": [1, {"y": 3}, 4], "new": None}
    found = [(change.path, change.a, change.b, change.in_a, change.in_b) for change in changes(a, b)]
    assert found == [
        ("l[1].y", 2, 3, True, True), ("l[2]", None, 4, False, True),
        ("gone", 0, None, True, False), ("new", None, None, False, True),
    ]
    assert list(changes(1, True)) != []
    assert list(changes(1, 1.0)) == []


def test_reference_is_the_same_in_two_executions_when_its_value_is() -> None:
    one, two = ({"store": "nats", "key": f"{who}/abc", "checksum": "abc", "size": 9} for who in ("x1", "x2"))
    assert plain(one) == plain(two) != plain({**one, "checksum": "def"})
    a, b = choice("b"), choice("b")
    for tale, name in ((a, "x1"), (b, "x2")):
        ref = Ref("nats", f"{name}/abc", "abc", 9)
        tale.entries = change(tale.entries, ev.PlaybookProcessed, result=Result(None, "value", ref))
    assert compared(a, b)["same"]
