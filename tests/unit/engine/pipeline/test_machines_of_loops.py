"""What the machines of a local loop and of a frame of rows ask for, and in which order."""

from collections.abc import Callable
from typing import Any

import pytest

from shared.engine.pipeline import call as pipeline_call
from shared.engine.pipeline import effects as ef
from shared.engine.pipeline.frame_machine import PAUSES_S, FrameMachine
from shared.engine.pipeline.history import History
from shared.engine.pipeline.local_history import LoopHistory
from shared.engine.pipeline.local_machine import HandedBack, LocalMachine
from shared.engine.pipeline.ownership import Fenced
from shared.events import model as ev
from shared.events.command import Local
from shared.events.outcome import Outcome, failed, ok
from shared.events.run_index import of_frame
from shared.tools import registry
from tests.unit.engine.pipeline.outside import NOOP, OURS, Outside, command, lease, machine_of, played
from tests.unit.engine.support import NOW, plan_of

ROWS = """
- step: start
  loop: {cursor: {kind: postgres, auth: pg, claim: "SELECT {{ claim.size }}"}, iterator: row}
  tool: {kind: noop}
"""

# -- a local loop --------------------------------------------------------------------------


def loop_of(most: int = 2, **fields: Any) -> LocalMachine:
    workflow = """
    - step: start
      loop: {in: "{{ workload.items }}", iterator: item, spec: {policy: {exec: local}}}
      tool: {kind: noop}
    """
    local = Local([1, 2, 3], None, 10, True)
    return LocalMachine(plan_of(workflow).steps["start"], command(count=3, local=local, **fields), lease(), {}, most)


def ends(outside: Callable[[], Outside]) -> Callable[[ef.Effect], list[tuple[int, ev.Event]]]:
    """The first of those that run has ended."""
    ended: list[int] = []

    def one(_: ef.Effect) -> list[tuple[int, ev.Event]]:
        begun = [effect.command.index for effect in outside().asked if isinstance(effect, ef.Begin)]
        ended.append(next(index for index in begun if index not in ended))
        return [(ended[-1], ev.IterationDone())]

    return one


def test_a_local_loop_begins_as_many_as_may_run_and_another_for_each_that_ends() -> None:
    outside = Outside(loop_of(), Read=LoopHistory((OURS, 1)), Next=ends(lambda: outside))
    outside.drive(outside.machine.run())
    assert [name for name in outside.names if name in ("Begin", "Next")] == ["Begin", "Begin", "Next", "Begin", "Next",
                                                                            "Next"]
    assert outside.said == [["StepStarted"]]


def test_a_worker_that_stops_hands_a_local_loop_back_when_nothing_runs_any_more() -> None:
    outside = Outside(loop_of(), Read=LoopHistory((OURS, 1)), Next=ends(lambda: outside),
                      IsStopping=lambda _: "Begin" in outside.names)
    with pytest.raises(HandedBack):
        outside.drive(outside.machine.run())
    assert [name for name in outside.names if name in ("Begin", "Next")] == ["Begin", "Next"]


def test_a_paused_loop_is_left_after_its_claim() -> None:
    outside = Outside(loop_of(), Read=LoopHistory((OURS, 1), paused=True))
    with pytest.raises(Fenced):
        outside.drive(outside.machine.run())


# -- a frame of rows -----------------------------------------------------------------------


def claim_of_rows() -> FrameMachine:
    step, index = plan_of(ROWS).steps["start"], of_frame(0)
    return FrameMachine(step, command(index=index, count=5), lease(index=index), registry.specs().__getitem__, {})


def rows(effect: ef.Effect, outside: Callable[[], Outside], kept: list[bool]) -> Outcome:
    assert isinstance(effect, ef.ClaimRows)
    kept.append(outside().drive(effect.keep(ok({"rows": [{"k": 1}], "columns": ["k"], "row_count": 1}))))
    return ok()


def test_rows_are_committed_when_the_log_says_that_their_record_counts() -> None:
    kept: list[bool] = []
    outside = Outside(claim_of_rows(), Read=History(epoch=(OURS, 1), over=True),
                      ClaimRows=lambda effect: rows(effect, lambda: outside, kept))
    outside.drive(outside.machine.run())
    assert (kept, outside.said) == ([True], [["StepStarted"], ["FrameClaimed"]])


def test_rows_that_another_has_claimed_meanwhile_are_not_committed() -> None:
    kept: list[bool] = []
    outside = Outside(claim_of_rows(), Read=History(epoch=(OURS + 1, 1)),
                      ClaimRows=lambda effect: rows(effect, lambda: outside, kept))
    with pytest.raises(Fenced):
        outside.drive(outside.machine.run())
    assert kept == [False]


def test_a_claim_that_failed_for_the_moment_is_tried_again_and_then_fails() -> None:
    outside = played(claim_of_rows(), ClaimRows=failed("connect", "not now", retryable=True))
    assert [effect.attempt for effect in outside.asked if isinstance(effect, ef.ClaimRows)] == [1, 2, 3]
    assert outside.now - NOW == sum(PAUSES_S)
    assert outside.said == [["StepStarted"], ["FrameFailed"]]


def test_a_fault_of_the_worker_ends_whatever_it_holds() -> None:
    error = pipeline_call.internal(RuntimeError("a bug"))
    for machine, last in ((machine_of(NOOP), "StepFailed"), (loop_of(), "LoopHalted")):
        outside = Outside(machine)
        outside.drive(machine.give_up(error))
        assert outside.said[-1][-1] == last
