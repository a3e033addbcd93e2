"""What a rerun from a step takes over of what was beside it."""

from typing import Any

import pytest

from shared.answers.rerun import rerun
from shared.events import model as ev
from shared.events.outcome import Outcome, ok
from tests.unit.engine.support import Driver, plan_of

FORK = """
- step: start
  tool: {kind: noop}
  next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
- {step: a, tool: {kind: noop}, next: {arcs: [{step: both}]}}
- {step: b, tool: {kind: noop}, next: {arcs: [{step: both}]}}
- {step: both, tool: {kind: noop}}
"""


def work(_step: str, _task: str, _names: dict[str, Any]) -> Outcome:
    return ok({"n": 1})


@pytest.mark.parametrize(("step", "tokens"), [
    ("start", {"start"}), ("a", {"a", "b"}), ("b", {"a", "b"}), ("both", {"both"}),
])
def test_the_other_branch_is_not_lost(step: str, tokens: set[str]) -> None:
    driver = Driver(plan_of(FORK), work)
    driver.run()
    assert driver.state.status == "completed"
    found = rerun.from_step("x1", list(enumerate(driver.log, 1)), step)
    assert isinstance(found, ev.PlaybookRestored)
    assert {token.step for token in found.tokens} == tokens
    assert len(found.tokens) == len(tokens)
