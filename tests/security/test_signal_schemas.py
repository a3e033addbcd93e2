"""The schema of a wait is an author's, or a forger's: checking a signal against it is bounded, and fetches nothing."""

import time
from typing import Any

import pytest

from shared.dsl.templates.json_schema import MAX_PATTERN, MAX_SCHEMA_NODES
from shared.engine.scheduling.signals import misfit
from shared.tools.base.contract import ToolOptions
from shared.tools.registry import open_tool
from tests.support.calls import call

SLOW_S = 1.0  # an unbounded check takes minutes to for ever
_REPEATED = {"allOf": [{"$ref": "#/$defs/n"}, {"$ref": "#/$defs/n"}]}
HOSTILE: dict[str, tuple[dict[str, Any], Any]] = {
    "nested quantifiers": ({"pattern": "^(a+)+$"}, "a" * 40 + "!"),
    "alternatives that overlap": ({"pattern": "^(a|aa)+$"}, "a" * 60 + "!"),
    "optional ones in a row": ({"pattern": "a?" * 40 + "a" * 40}, "a" * 40),
    "a search from every place": ({"pattern": "a*b"}, "a" * 200_000),
    "many quantifiers": ({"pattern": "a*a*a*a*a*b"}, "a" * 5000),
    "a reference back": ({"pattern": "(a*)(a*)\\1\\2b"}, "a" * 3000),
    "names of properties": ({"patternProperties": {"^(a+)+$": {}}}, {"a" * 40 + "!": 1}),
    "a reference to itself": ({"$ref": "#"}, 1),
    "references that double": ({"$defs": {"n": {"anyOf": [{"properties": {"a": _REPEATED}}]}}, **_REPEATED},
                               __import__("functools").reduce(lambda below, _: {"a": below}, range(60), {})),
    "a reference to elsewhere": ({"$ref": "http://127.0.0.1:9/schema.json"}, 1),
    "elements that differ": ({"uniqueItems": True}, [{"a": n} for n in range(20_000)]),
    "a large choice": ({"items": {"enum": [f"x{n}" for n in range(900)]}}, ["y"] * 50_000),
    "a long message": ({"items": {"type": "string"}, "anyOf": [{"type": "null"}] * 100}, [1] * 50_000),
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_schema_takes_no_time_and_takes_nothing(what: str) -> None:
    schema, payload = HOSTILE[what]
    began = time.process_time()
    assert misfit(payload, schema) != ""
    assert time.process_time() - began < SLOW_S
    assert misfit(payload, schema) == misfit(payload, schema)


@pytest.mark.parametrize(
    ("schema", "payload", "fits"),
    [
        ({"type": "object", "required": ["approved"], "properties": {"approved": {"type": "boolean"}}},
         {"approved": True}, True),
        ({"type": "object", "required": ["approved"]}, {}, False),
        ({"properties": {"mail": {"pattern": "^[^@ ]+@[^@ ]+\\.[a-z]+$"}}}, {"mail": "someone@example.com"}, True),
        ({"properties": {"mail": {"pattern": "^[^@ ]+@[^@ ]+\\.[a-z]+$"}}}, {"mail": "someone"}, False),
        ({"pattern": "^[0-9]+(\\.[0-9]+)?$"}, "12.50", True),
        ({"pattern": "^(dev|test|prod)$"}, "prod", True),
        ({"pattern": "^\\d{4}-\\d{2}-\\d{2}$"}, "2026-02-01", True),
        ({"pattern": "^[a-z]+(-[a-z]+)*$"}, "a-name", True),
        ({"$defs": {"n": {"type": "integer"}}, "items": {"$ref": "#/$defs/n"}}, [1, 2, 3], True),
        ({"items": {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}},
         [{"id": n} for n in range(200)], True),
    ],
)
def test_an_ordinary_schema_is_checked_as_ever(schema: dict[str, Any], payload: Any, fits: bool) -> None:
    assert (misfit(payload, schema) == "") is fits


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"enum": list(range(MAX_SCHEMA_NODES))}, "too large"),
        ({"pattern": "(a)\\1"}, "refers back"),
        ({"pattern": "a" * (MAX_PATTERN + 1)}, "too long"),
        ({"properties": {"a": {"patternProperties": {"(": {}}}}}, "is not a pattern"),
    ],
)
async def test_a_task_refuses_a_schema_that_could_not_be_checked(schema: dict[str, Any], says: str) -> None:
    tool = open_tool("signal", ToolOptions())
    outcome = await tool.run(call({"signal": "go", "schema": schema}))
    await tool.close()
    assert outcome.error is not None  # type: ignore[union-attr]
    assert says in outcome.error["message"]  # type: ignore[union-attr]
