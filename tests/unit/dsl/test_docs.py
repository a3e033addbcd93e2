"""docs/dsl.md says what the compiler does."""

from pathlib import Path

import pytest

from shared.dsl import (
    codes,
    limits,
    loops,
    lower_limits,
    net,
    policies,
    promises,
    reader,
    root,
    routes,
    rules,
    source,
    steps,
    tasks,
    template_limits,
    texts,
)
from shared.dsl.compile import compile_playbook
from shared.dsl.lower_results import INLINE_MAX_BYTES
from tests.unit.dsl.tool_kinds import KINDS

DOCS = (Path(__file__).parents[3] / "docs" / "dsl.md").read_text(encoding="utf-8")


def test_table_of_codes_is_the_one_of_the_compiler() -> None:
    assert codes.table() in DOCS


def test_first_example_compiles_clean() -> None:
    example = DOCS.split("\n\n    ", 1)[1].split("\n\n## ", 1)[0]
    assert compile_playbook("    " + example, kinds=KINDS).diagnostics == ()


@pytest.mark.parametrize("limit", [
    source.MAX_NODES, source.MAX_ITEMS, source.MAX_ALIASES, source.MAX_DEPTH, root.MAX_STEPS, steps.MAX_TASKS,
    routes.MAX_ARCS, promises.MAX_ASSERTED, promises.MAX_SELECTED, INLINE_MAX_BYTES,
    reader.MAX_ERRORS, reader.MAX_WARNINGS, rules.MAX_ATTEMPTS, loops.MAX_IN_FLIGHT, limits.MAX_PAYLOAD,
    limits.MAX_PLACES, limits.MAX_RATE, limits.MAX_KEY,
    policies.DEFAULT_MAX_PAYLOAD, loops.DEFAULT_IN_FLIGHT, source.MAX_TEMPLATES, source.MAX_CODE,
    source.MAX_SOURCE_ERRORS, texts.MAX_BUILT, lower_limits.MAX_FORMAL, lower_limits.MAX_COPIED,
    lower_limits.MAX_IN_PROGRAM, lower_limits.MAX_PROGRAM, net.MAX_STATES,
    net.MAX_MOVES, template_limits.MAX_TOKENS, template_limits.MAX_NESTING,
])
def test_limit_is_documented(limit: int) -> None:
    assert f" {limit:,}" in DOCS


@pytest.mark.parametrize("key", [
    *root.ROOT_KEYS, *root.METADATA_KEYS, *tasks.COMMON_KEYS, "step", "loop", "tool", "next", "in", "iterator",
    "do", "attempts", "backoff", "delay", "to", "set_iter", "set_ctx", *rules.ACTIONS, *rules.BACKOFFS,
])
def test_key_is_documented(key: str) -> None:
    assert f"`{key}`" in DOCS
