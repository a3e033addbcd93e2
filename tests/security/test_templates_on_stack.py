"""While executions with the worst templates run, the steps of others are decided."""

import asyncio
import json
from itertools import pairwise

import msgspec
import pytest

from services.cli.executions.records import history
from shared.events import model as ev
from shared.events.stamp import seconds
from tests.conformance.stand.stage import Stage, stage
from tests.security.worst_templates import SCOPE, WORST

__all__ = ["stage"]

pytestmark = pytest.mark.asyncio(loop_scope="module")
STEPS = 20
BOUND_S = 2.0   # one gap between two decisions of an execution; a template has 0.05 s, CI has other work
WITHIN_S = 60.0


def _chain() -> str:
    names = [f"s{n}" for n in range(STEPS)]
    steps = "".join(
        f"- step: {name}\n  tool: {{kind: noop}}\n  next: {{arcs: [{{step: {after}}}]}}\n"
        for name, after in pairwise(["start", *names])
    )
    return f"{steps}- step: {names[-1]}\n  tool: {{kind: noop}}\n"


def _hostile(template: str) -> str:
    """A condition, an argument and, where it is one expression, the elements of a loop."""
    text = json.dumps(template)
    elements = text if template.startswith("{{") else "[1]"
    arcs = ", ".join(f"{{step: last, when: {text}, args: {{x: {text}}}}}" for _ in range(8))
    return (f"- step: start\n  tool: {{kind: noop}}\n  next: {{spec: {{mode: inclusive}}, arcs: [{arcs}]}}\n"
            f"- step: last\n  loop: {{in: {elements}, iterator: x}}\n  tool: {{kind: noop}}\n")


async def _ended(stage: Stage, execution_id: str) -> tuple[ev.PlaybookProcessed, list[float]]:
    """How it ended, and when the router decided."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            records = await history(stage.bus, execution_id, stage.partitions)
            mine = [record for record in records if record.writer == "router"]
            for record in mine:
                for event in record.events:
                    if isinstance(event, ev.PlaybookProcessed):
                        return event, [seconds(each.ts) for each in mine]
            await asyncio.sleep(0.2)


async def _worst_gap(stage: Stage, rounds: int) -> float:
    gaps = [0.0]
    for _ in range(rounds):
        end, times = await _ended(stage, await stage.begin(_chain()))
        assert end.status == "completed"
        assert len(times) > STEPS
        gaps += [later - sooner for sooner, later in pairwise(times)]
    return max(gaps)


async def test_others_are_decided_while_hostile_templates_run(stage: Stage) -> None:
    alone = await _worst_gap(stage, 2)
    hostile = [await stage.begin(_hostile(template), payload=SCOPE) for template in WORST]
    beside = await _worst_gap(stage, 3)
    print(f"\nworst gap between two decisions: {alone * 1e3:.0f} ms alone, {beside * 1e3:.0f} ms beside")  # noqa: T201
    for execution_id, template in zip(hostile, WORST, strict=True):
        end, _ = await _ended(stage, execution_id)
        if end.status == "failed":
            assert end.error is not None
            assert end.error["kind"] in ("limit", "template", "loop"), (template, msgspec.json.encode(end.error))
    assert beside < BOUND_S
