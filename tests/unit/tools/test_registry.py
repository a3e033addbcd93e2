"""The registry knows every kind without loading what the kinds need."""

import subprocess
import sys

import pytest

from shared.events.outcome import Outcome, ok
from shared.tools import registry
from shared.tools.base.contract import Call, ToolOptions, ToolSpec
from tests.support.kinds import registered


def test_specs_load_no_heavy_library() -> None:
    code = (
        "import sys; from shared.tools.registry import specs; specs();"
        "print([m for m in ('aiohttp', 'asyncpg', 'duckdb', 'jinja2') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "[]"


def test_the_kinds_of_the_language_are_there() -> None:
    assert {"noop", "http", "python", "postgres", "duckdb"} <= set(registry.specs())
    assert registry.specs()["noop"].pure
    assert not registry.specs()["python"].keys["code"].template
    assert registry.specs()["postgres"].keys["command"].sql


def test_specs_cannot_be_changed_from_outside() -> None:
    with pytest.raises(TypeError):
        registry.specs()["x"] = ToolSpec(kind="x", doc="", keys={})  # type: ignore[index]


async def test_a_kind_can_be_added_once() -> None:
    class Echo:
        def __init__(self, _options: ToolOptions) -> None:
            pass

        async def run(self, call: Call) -> Outcome:
            return ok(call.config["say"])

        async def close(self) -> None:
            pass

    spec = ToolSpec(kind="echo", doc="Says it again.", keys={})
    with registered(spec, Echo):
        tool = registry.open_tool("echo", ToolOptions())
        assert (await tool.run(Call({"say": 1}, {}, None, "k", 1.0))).result == 1
        with pytest.raises(ValueError, match="twice"):
            registry.register(spec, Echo)
