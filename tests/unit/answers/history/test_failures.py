"""What a failed call left behind, found again in its log."""

from typing import Any

from shared.answers.history.failures import MAX_BODY, Failures, evidence, shown
from shared.events import model as ev
from shared.events.outcome import Outcome, Ref, failed
from tests.unit.answers.tale import Tale, lease

TRACEBACK = 'Traceback (most recent call last):\n  File "<python 1>", line 2, in <module>\nKeyError: 1\n'


def ended(outcome: Outcome, task: str = "work") -> ev.TaskDone:
    return ev.TaskDone(task, 1, outcome, "fail")


def told(*work: tuple[int, ev.TaskDone]) -> Failures:
    tale, found = Tale().begin("load", loop=any(index >= 0 for index, _ in work)), Failures()
    for number, (index, event) in enumerate(work):
        tale.work(1 + number, lease("load:1", 0, index), event)
    for _, record in tale.entries:
        found.take(record)
    return found


def test_a_traceback_and_what_was_printed_are_shown_with_their_place() -> None:
    outcome = failed("python", "KeyError: 1", py={"traceback": TRACEBACK}, meta={"stdout": "row 1\n"})
    error = {"step": "load", "task": "work", **(outcome.error or {})}
    assert shown(told((-1, ended(outcome))).behind(error)) == {
        "step": "load", "task": "work", "attempt": 1, "iteration": None,
        "traceback": TRACEBACK.rstrip(), "stdout": "row 1",
    }


def test_the_first_kilobyte_of_an_answer_is_shown() -> None:
    body: dict[str, Any] = {"error": "no customer", "detail": "x" * 3000}
    found = evidence(failed("http", "422", result={"status_code": 422, "data": body}, shape="http"))
    assert found["body"].startswith('{"error": "no customer", "detail": "xxx')
    assert len(found["body"]) < MAX_BODY + 40


def test_a_program_that_was_cut_short_has_its_streams_and_a_value_of_that_shape_has_none() -> None:
    streams = {"stdout": "loading\n", "stderr": "slow\n"}
    assert evidence(failed("timeout", "no result", result=streams)) == {"stdout": "loading", "stderr": "slow"}
    assert evidence(Outcome("ok", streams)) == {}


def test_of_a_loop_the_first_iteration_that_failed_is_shown() -> None:
    first, second = failed("python", "one", meta={"stdout": "a"}), failed("python", "two", meta={"stdout": "b"})
    found = shown(told((3, ended(first)), (1, ended(second))).behind({"step": "load", "message": "loop"}))
    assert found is not None
    assert (found["iteration"], found["stdout"]) == (3, "a")


def test_what_lies_outside_the_log_is_left_out_unless_it_is_brought() -> None:
    outcome = Outcome("error", ref=Ref("nats", "x/1", "c1", 9), shape="http", error={"kind": "http"})
    assert evidence(outcome) == {}
    assert evidence(outcome, {"c1": {"data": "gone"}}) == {"body": "gone"}


def test_an_error_without_a_step_has_no_call_behind_it() -> None:
    assert told((-1, ended(failed("python", "x")))).behind({"kind": "request", "message": "refused"}) is None
    assert shown(None) is None
