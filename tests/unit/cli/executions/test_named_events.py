"""Events by formal names: the playbook says what is a sink, and is missed when it is gone."""

import pytest

from services.cli.executions.named_events import Canonical, InFormal
from shared.dsl.compile import compile_playbook
from shared.runtime.stores import catalog
from shared.tools import registry
from shared.tools.testing.effectless import natural
from tests.support.memory_bus import memory_bus
from tests.unit.answers.rehearsal.test_rehearsal import play
from tests.unit.engine.support import source_of

SOURCE = source_of("- {step: start, tool: {kind: noop}, sink: {tool: {kind: noop, args: {n: 1}}}}")


async def test_a_sink_is_one_while_its_playbook_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    plan = compile_playbook(SOURCE, kinds=registry.specs()).plan
    assert plan is not None
    entries = play(plan, natural).entries
    bus = memory_bus()
    gone = await InFormal(bus).of(entries)
    assert "sinks and cases are shown as tools: there is no playbook source" in capsys.readouterr().err
    await catalog.register(bus, SOURCE.encode(), plan)
    found = await InFormal(bus).of(entries)
    assert capsys.readouterr().err == ""
    sinks = [[each["event_type"] for each in events].count("sink.started") for events in (gone, found)]
    assert sinks == [0, 1]
    ours = await Canonical().of(entries)
    assert {each["event_type"] for each in ours} >= {"task.started", "step.done"}
    assert "name" not in ours[0]
