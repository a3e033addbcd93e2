"""Kinds that only say what they wait for; the scheduler does the rest."""

from typing import Any

import pytest

from shared.engine.values.stored_values import MAX_WORKLOAD_BYTES
from shared.events.model import Child
from shared.events.outcome import Outcome
from shared.tools.base.contract import ToolOptions, Waits
from shared.tools.registry import open_tool
from tests.support.calls import call


async def said(kind: str, config: dict[str, Any], **fields: Any) -> Outcome | Waits:
    tool = open_tool(kind, ToolOptions())
    try:
        return await tool.run(call(config, **fields))
    finally:
        await tool.close()


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"path": "a/b"}, Child("", "a/b")),
        ({"path": "a/b", "version": 2, "args": {"x": 1, "y": 1}, "payload": {"y": 2}, "return_step": "last"},
         Child("", "a/b", "2", {"x": 1, "y": 2}, "last")),
        ({"path": "a/b", "mode": "detached"}, Child("", "a/b", detached=True)),
    ],
)
async def test_a_playbook_names_its_child(config: dict[str, Any], expected: Child) -> None:
    assert await said("playbook", config) == Waits(expected)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [(5, 5.0), ("5", 5.0), (0.5, 0.5), ("90s", 90.0), ("1h30m", 5400.0), ("250ms", 0.25), ("2d", 172800.0)],
)
async def test_a_wait_takes_seconds_and_texts_with_units(given: Any, seconds: float) -> None:
    assert await said("wait", {"for": given}) == Waits(for_s=seconds)


async def test_a_wait_until_a_time_takes_any_zone() -> None:
    waits = Waits(until="2027-01-01T07:00:00.000000Z")
    assert await said("wait", {"until": "2027-01-01T08:00:00+01:00"}) == waits


async def test_a_signal_has_a_name_a_schema_and_a_time() -> None:
    schema = {"type": "object"}
    found = await said("signal", {"signal": "go", "schema": schema}, spec={"timeout": 3})
    assert found == Waits(signal="go", schema=schema, timeout_s=3.0)


@pytest.mark.parametrize(
    ("kind", "config", "says"),
    [
        ("playbook", {"path": "a", "mode": "later"}, "mode must be one of sync, detached"),
        ("playbook", {"path": "a", "args": [1]}, "args must be a mapping"),
        ("playbook", {"path": {"a": 1}}, "path must be text"),
        ("playbook", {"path": "a", "args": {"x": "y" * MAX_WORKLOAD_BYTES}}, "pass a reference"),
        ("wait", {}, "needs `for` or `until`"),
        ("wait", {"for": 1, "until": "2027-01-01T08:00:00Z"}, "give one of"),
        ("wait", {"for": "soon"}, "not a time such as"),
        ("wait", {"for": -1}, "not a number of seconds"),
        ("wait", {"for": "400d"}, "not a number of seconds up to"),
        ("wait", {"until": "2027-01-01T08:00:00"}, "has no zone"),
        ("wait", {"until": "tomorrow"}, "not an RFC 3339 time"),
        ("signal", {"signal": "a b"}, "is not a name"),
        ("signal", {"signal": "a", "schema": {"type": "what"}}, "schema: 'what' is not valid"),
    ],
)
async def test_what_cannot_be_waited_for_is_a_mistake_of_the_call(kind: str, config: dict[str, Any], says: str) -> None:
    outcome = await said(kind, config)
    assert isinstance(outcome, Outcome)
    assert outcome.error is not None
    assert outcome.error["kind"] == "config"
    assert says in outcome.error["message"]
