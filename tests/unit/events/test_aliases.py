"""The one table of the other names of events: complete, and used by conditions and by what is printed."""

from typing import get_args

import pytest

from shared.dsl.templates.conditions import fires
from shared.engine.routing.boundary_event import EventName
from shared.events import aliases, model

FS = {
    "playbook.execution.requested", "playbook.request.evaluated", "playbook.started", "workflow.started",
    "step.started", "step.finished", "tool.started", "tool.processed", "case.started", "case.evaluated",
    "next.evaluated", "loop.started", "loop.iteration.started", "loop.iteration.finished", "loop.finished",
    "retry.started", "retry.processed", "sink.started", "sink.processed", "workflow.finished", "playbook.processed",
}
FX = {
    "PlaybookExecutionRequested", "PlaybookRequestEvaluated", "WorkflowStarted", "StepStarted", "NextEvaluated",
    "WorkflowFinished", "PlaybookPaused", "PlaybookProcessed", "ToolStarted", "ToolCompleted", "ToolErrored",
    "LoopStarted", "LoopIterationStarted", "LoopIterationCompleted", "RetryStarted", "RetryProcessed", "SinkStarted",
    "SinkProcessed", "CaseStarted", "CaseEvaluated",
}
DSL2 = {"token.enqueued", "token.claimed", "next.enqueued"}
CONDITIONS = {
    "step.done": ("step.done", "call.done", "step.exit", "step.finished", "tool.processed", "ToolCompleted"),
    "loop.done": ("loop.done", "loop.finished", "step.done", "call.done", "step.exit", "step.finished"),
    "step.failed": ("step.failed", "call.error", "ToolErrored"),
}


def test_every_formal_name_is_in_the_table() -> None:
    """FS §12.2, FX §9.2, and what DSL2 §9.2 has and we do not write."""
    rows = [*aliases.FORMAL.values(), *(each.name for each in aliases.SAID.values())]
    assert {each.fs for each in rows} - {""} == FS | DSL2
    assert {name for each in rows for name in each[1:]} - {""} == FX


def test_every_row_is_an_event_of_ours() -> None:
    own = {each.__struct_config__.tag for each in get_args(model.Event)}
    assert own >= aliases.FORMAL.keys()
    assert own >= {cause for each in aliases.SAID.values() for cause in each.of}


@pytest.mark.parametrize(("event", "names"), CONDITIONS.items())
def test_conditions_of_the_router_and_of_the_compiler_know_the_same_names(event: str, names: tuple[str, ...]) -> None:
    every = {name for each in CONDITIONS.values() for name in each}
    for name in every:
        when = f"{{{{ event.name == '{name}' }}}}"
        assert (EventName(event) == name) == fires(when, event) == (name in names or name in aliases.BOUNDARY[event])
    assert set(names) <= aliases.BOUNDARY[event]
