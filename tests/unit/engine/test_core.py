"""The router and the scheduler as cores."""

from typing import Any

import pytest

from shared.engine.core import Core
from shared.engine.routing.core import RouterCore
from shared.engine.scheduling.core import SchedulerCore, stops
from shared.events import model as ev
from shared.events.readers import INPUTS
from shared.events.stop import Stop


def _no_plan(digest: str) -> Any:
    raise AssertionError(f"nothing asks for plan {digest}")


@pytest.mark.parametrize("core", [RouterCore(_no_plan), SchedulerCore(_no_plan)])
def test_nothing_follows_from_nothing(core: Core[Any]) -> None:
    state = core.empty("x")
    assert type(state) is core.kind
    assert core.listens == INPUTS[core.writer]
    assert core.fold(state, []) == state
    assert (core.decide(state, 0.0, {}), core.outgoing(state, [], {}, 0)) == ([], [])
    assert (core.due(state), core.over(state), core.keep(state)) == (None, False, False)


@pytest.mark.parametrize(("event", "run_ids"), [
    (ev.StepCancelled("a:1", "a", "enough", "gpu"), ["a:1"]),
    (ev.StepFailed({"kind": "timeout"}, (), "a:1", "a", "gpu"), ["a:1"]),
    (ev.StepFailed({"kind": "timeout"}, (), "a:1", "a"), []),
    (ev.LoopDone("a:1", "a"), []),
])
def test_who_may_hold_a_run_that_was_ended_is_stopped(event: ev.Event, run_ids: list[str]) -> None:
    assert stops("x", event) == [Stop("gpu", "x", run_id) for run_id in run_ids]
