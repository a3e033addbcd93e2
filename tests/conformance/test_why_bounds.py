"""How much `why` looks at for one answer, on a real stack: every bound is told."""

import asyncio

import pytest

from services.cli.stack.remedies import words
from services.cli.why import questions, unstarted
from services.cli.why import world as why_around
from tests.conformance.stand.stage import Stage, stage

__all__ = ["stage"]

pytestmark = pytest.mark.asyncio(loop_scope="module")
SIGNAL = "tool: {kind: signal, signal: go}"


async def test_one_answer_is_bounded(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    await stage.begin(f"- step: start\n  {SIGNAL}\n", path="why/child")
    execution = await stage.begin("- step: start\n  tool: {kind: playbook, path: why/child}\n")
    await stage.stalled(execution, "wait.child", lambda reason, _: reason.because)
    for limit, most in (("MAX_ANSWERS", 1), ("MAX_DEPTH", 0)):
        with monkeypatch.context() as patch:
            patch.setattr(questions, limit, most)
            reason, _ = await stage.stalled(execution, "wait.child")
            assert reason.because == ()
            assert f"noetlctl why {reason.values['child']}" in words(reason.remedy)


async def test_looks_at_the_queue_are_bounded(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five commands that nobody takes; two are counted, three looked up."""
    monkeypatch.setattr(why_around, "MAX_WALK", 2)
    monkeypatch.setattr(why_around, "MAX_PLACED", 3)
    execution = await stage.begin("""
    - step: start
      spec: {pool: lonely}
      loop: {in: "{{ range(5) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 5}}
      tool: {kind: noop}
    """)
    await stage.stalled(execution, "pool.no_workers", lambda reason, _: len(reason.indexes) == 5)
    around = why_around.Around(stage.bus, stage.partitions)
    for _ in range(100):
        found = await around.queued(execution, [await around.pool("lonely")])
        if len(found) == 5:
            break
        await asyncio.sleep(0.1)
    assert sorted(queued.before for queued in found.values()) == [-1, -1, -1, 0, 1]
    assert sum(queued.seq > 0 for queued in found.values()) == 3


async def test_too_many_requests_are_not_looked_through(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unstarted, "MAX_READ", 0)
    async with stage.without("router"):
        execution = await stage.ask("why/child")
        reason, answer = await stage.stalled(execution, "request.waiting")
        assert (answer.status, reason.values["waiting"]) == ("pending", 1)
        assert "it may be among them" in reason.text
