"""An execution that completed tells of the iterations that failed in it."""

from typing import Any

from services.cli.stack.remedies import words
from shared.events.outcome import Outcome, failed, ok
from tests.unit.answers.why.stalls import PLAIN, Stall, causes

LENIENT = """
- step: start
  spec: {policy: {failure: {mode: best_effort}}}
  loop: {in: "{{ range(5) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: noop}
"""


def _odd(_step: str, _task: str, names: dict[str, Any]) -> Outcome:
    if names["n"] % 2:
        return failed("http", f"no page {names['n']}", meta={"stdout": "trying\n"})
    return ok(names["n"])


def test_a_loop_that_was_done_with_failures_says_how_many_and_the_first() -> None:
    stall = Stall(LENIENT)
    stall.work = _odd
    stall.run()
    assert stall.state.status == "completed"
    assert causes(stall.why()) == ["over", "loop.failures"]
    reason = stall.reason("loop.failures")
    assert reason.text == ("2 of 5 iterations of start:1 failed, and the loop was done all the same; the first, "
                           "iteration 1: http: no page 1")
    assert (reason.kind, reason.step, reason.run_id) == ("note", "start", "start:1")
    assert [each["index"] for each in reason.values["failures"]] == [1, 3]
    assert reason.values["failure"]["stdout"] == "trying"
    assert words(reason.remedy) == "noetlctl logs x1 --step start lists them"


def test_what_waits_for_a_worker_waits_since_it_was_scheduled() -> None:
    stall = Stall(PLAIN)
    scheduled = next(record.ts for record in stall.log for event in record.events
                     if type(event).__name__ == "StepScheduled")
    assert {reason.since for reason in stall.why().reasons} == {scheduled}
