"""Generated names are shown with what they stand for and the line it is on."""

import io

import pytest

from services.cli.executions import generated_names, result_output
from services.cli.executions.display import Lines, Tree, describe
from shared.answers.history.summary import StepSummary, Summary
from shared.bus.memory.broker import MemoryBroker
from shared.bus.memory.bus import MemoryBus
from shared.dsl.compile import compile_playbook
from shared.dsl.model.plan import Origin
from shared.runtime.service.clock import SystemClock
from shared.runtime.stores import catalog
from shared.tools import registry
from tests.support.memory_bus import memory_bus

NAMES = {"start_case_1": Origin(7, "the steps of rule 1 of step start"),
         "start_sink": Origin(9, "a sink of step start")}
SINK = b"""\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: sink}
workflow:
  - {step: start, tool: {kind: noop}, sink: {tool: noop}}
"""


def test_a_generated_step_or_task_is_described_by_its_source() -> None:
    step = StepSummary("start_case_1", 1, "running", task="start_sink", attempt=2)
    assert describe(step, NAMES) == (
        "start_case_1 (the steps of rule 1 of step start, line 7) start_sink (a sink of step start, line 9), attempt 2")
    assert describe(StepSummary("start", 1, "done"), NAMES) == "start"


@pytest.mark.parametrize("kind", [Lines, Tree])
def test_progress_shows_it(kind: type[Lines] | type[Tree]) -> None:
    out, summary = io.StringIO(), Summary("e1")
    summary.steps = {"start_case_1": StepSummary("start_case_1", 1, "done")}
    progress = kind(out, NAMES)
    progress.update(summary)
    progress.close()
    assert "✓ start_case_1 (the steps of rule 1 of step start, line 7)" in out.getvalue()


@pytest.mark.parametrize(
    ("task", "line"),
    [
        ("start_sink", "failed: http: busy, in start_sink (a sink of step start, line 9)\n"),
        ("fetch", "failed: http: busy\n"),
    ],
)
async def test_an_error_says_which_generated_task_it_comes_from(
    task: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = Summary("e1")
    summary.status = "failed"
    summary.error = {"kind": "http", "message": "busy", "task": task, "step": "start"}
    await result_output.show(MemoryBus(MemoryBroker(SystemClock())), summary, "text", NAMES)
    assert capsys.readouterr().err == line


async def test_the_names_of_a_registered_playbook_are_found_by_its_digest() -> None:
    bus = memory_bus()
    plan = compile_playbook(SINK, kinds=registry.specs()).plan
    assert plan is not None
    entry = await catalog.register(bus, SINK, plan)
    found = await generated_names.of(bus, entry.digest)
    assert found == plan.origins
    assert generated_names.shown("start_sink", found) == "start_sink (a sink of step start, line 5)"
    assert [await generated_names.of(bus, digest) for digest in ("gone", "")] == [{}, {}]
