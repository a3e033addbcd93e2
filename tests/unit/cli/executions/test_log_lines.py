"""What `noetlctl logs` says of loops, and of calls that were cut short."""

import pytest

from services.cli.executions.log_lines import Teller, said, under_way
from shared.events import model as ev
from shared.events.beat import Saying
from shared.events.record import Lease, Record
from shared.events.stamp import stamp

CUT = ev.Printed("load", 2, {"stdout": "a\nb\n", "stderr": "oh"})
TAKEN = ev.Taken("abc", 5, 3)


@pytest.mark.parametrize(("event", "text"), [
    (ev.LoopStarted("r", "s", 5), "loop of 5"),
    (ev.LoopStarted("r", "s", 5, local=True), "loop of 5, all on one worker"),
    (ev.LoopStarted("r", "s", 5, taken=TAKEN), "loop of 5, 3 of 5 done by execution abc"),
    (ev.LoopStarted("r", "s", 0, frame=40), "loop of rows, 40 at a time"),
    (ev.FrameClaimed(7), "claimed 7 rows"),
    (ev.FrameClaimed(), "nothing left to claim"),
    (ev.FrameFailed({"kind": "postgres", "message": "no such table"}), "failed: postgres: no such table"),
])
def test_a_loop_is_told_in_words(event: ev.Event, text: str) -> None:
    assert said(event) == text


@pytest.mark.parametrize("event", [
    ev.StepFailed({"kind": "cancelled"}, printed=CUT), ev.IterationFailed({"kind": "cancelled"}, printed=CUT),
    ev.LeaseReleased("the worker stops", CUT),
])
def test_what_a_call_that_was_cut_short_had_printed_is_told(event: ev.Event) -> None:
    record = Record("x1", "worker", 1, stamp(0.0), (event,), 0, Lease("r:1", "r", (1, 1), "w1"))
    lines = Teller({}).lines(7, record)
    assert [(line.text, line.stream, line.task, line.attempt) for line in lines[:-1]] == [
        ("a", "stdout", "load", 2), ("b", "stdout", "load", 2), ("oh", "stderr", "load", 2)]
    assert (lines[-1].stream, lines[-1].task) == ("", "")


def test_what_calls_under_way_have_printed_last_is_told() -> None:
    says = [Saying("x1", "load:2", 3, "call", 2, {"stdout": ("a", "b"), "stderr": ("oh",)})]
    found = list(under_way(says, stamp(0.0)))
    assert [(line.text, line.stream) for line in found] == [("a", "stdout"), ("b", "stdout"), ("oh", "stderr")]
    assert {(line.seq, line.step, line.iteration, line.task, line.attempt) for line in found} == {
        (0, "load", 3, "call", 2)}
