"""The one table of the other names of events: complete, and used by conditions and by what is printed."""

from typing import get_args

import pytest

from services.cli.commands.events import Printer
from shared.dsl.templates.conditions import fires
from shared.engine.routing.boundary_event import EventName
from shared.events import aliases, model
from shared.events.outcome import failed, ok
from shared.events.record import Lease, Record, envelopes
from tests.support.paths import DOCS

FS = {
    "playbook.execution.requested", "playbook.request.evaluated", "playbook.started", "workflow.started",
    "step.started", "step.finished", "tool.started", "tool.processed", "next.evaluated", "loop.started",
    "loop.iteration.started", "loop.iteration.finished", "loop.finished", "retry.started", "workflow.finished",
    "playbook.processed",
}
FX = {
    "PlaybookExecutionRequested", "PlaybookRequestEvaluated", "WorkflowStarted", "StepStarted", "NextEvaluated",
    "WorkflowFinished", "PlaybookPaused", "PlaybookProcessed", "ToolStarted", "ToolCompleted", "ToolErrored",
    "LoopStarted", "LoopIterationStarted", "LoopIterationCompleted", "RetryStarted",
}
CONDITIONS = {
    "step.done": ("step.done", "call.done", "step.exit", "step.finished", "tool.processed", "ToolCompleted"),
    "loop.done": ("loop.done", "loop.finished", "step.done", "call.done", "step.exit", "step.finished"),
    "step.failed": ("step.failed", "call.error", "ToolErrored"),
}


def test_every_formal_name_of_what_happens_here_is_in_the_table() -> None:
    """FS §12.2 and FX §9.2 but `case.*` and `sink.*`, which are rules and tasks, and the end of a retry, which is
    the end of the call."""
    assert {each.fs for each in aliases.FORMAL.values()} - {""} == FS
    assert {name for each in aliases.FORMAL.values() for name in each[1:]} - {""} == FX


def test_every_row_is_an_event_of_ours() -> None:
    own = {each.__struct_config__.tag for each in get_args(model.Event)}
    assert own >= aliases.FORMAL.keys()


@pytest.mark.parametrize(("event", "names"), CONDITIONS.items())
def test_conditions_of_the_router_and_of_the_compiler_know_the_same_names(event: str, names: tuple[str, ...]) -> None:
    every = {name for each in CONDITIONS.values() for name in each}
    for name in every:
        when = f"{{{{ event.name == '{name}' }}}}"
        assert (EventName(event) == name) == fires(when, event) == (name in names or name in aliases.BOUNDARY[event])
    assert set(names) <= aliases.BOUNDARY[event]


def record(*events: model.Event) -> Record:
    return Record("e", "worker", 1, "2026-01-01T00:00:00Z", events, lease=Lease("start.1", "start", (1, 1), "w"))


def test_a_failed_call_has_a_name_of_its_own_in_fx() -> None:
    done = model.TaskDone("fetch", 1, ok(1), "continue")
    errored = model.TaskDone("fetch", 2, failed("http", "no"), "fail")
    shown = [aliases.formal(each) for each in envelopes(record(done, errored))]
    assert [(each["event_type"], each["name"]) for each in shown] == [
        ("tool.processed", "ToolCompleted"), ("tool.processed", "ToolErrored")]


def test_the_command_prints_formal_names_only_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    started = (1, record(model.TaskStarted("fetch", 1)))
    Printer("table", formal=False).show([started])
    Printer("table", formal=True).show([started])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in lines] == ["task.started", "tool.started"]


def test_the_table_is_documented() -> None:
    text = (DOCS / "dsl.md").read_text(encoding="utf-8")
    for own, other in aliases.FORMAL.items():
        names = " or ".join(f"`{name}`" for name in other[1:] if name)
        assert f"| `{own}` | {f'`{other.fs}`' if other.fs else ''} | {names} |".replace("|  |", "| |") in text
