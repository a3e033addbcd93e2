"""docs/dsl.md says what the compiler does."""

from textwrap import indent

import pytest

from shared.dsl.check import token_net
from shared.dsl.compile import compile_playbook
from shared.dsl.lower import bounds
from shared.dsl.lower.results import INLINE_MAX_BYTES
from shared.dsl.model import diagnostic_codes
from shared.dsl.read import (
    arcs,
    assertions,
    limits,
    loops,
    reader,
    root,
    step_policy,
    steps,
    task_policy,
    tasks,
)
from shared.dsl.source import nodes as source
from shared.dsl.templates import limits as template_limits
from shared.tools.registry import specs
from tests.support import paths
from tests.support.documents import tables
from tests.support.playbooks import head
from tests.unit.dsl.tool_kinds import KINDS

DOCS = (paths.DOCS / "dsl.md").read_text(encoding="utf-8")


def test_table_of_codes_is_the_one_of_the_compiler() -> None:
    assert diagnostic_codes.table() in DOCS


def test_first_example_compiles_clean() -> None:
    example = DOCS.split("\n\n    ", 1)[1].split("\n\n## ", 1)[0]
    assert compile_playbook("    " + example, kinds=KINDS).diagnostics == ()


@pytest.mark.parametrize(("heading", "kind"), [("HTTP", "http"), ("Python", "python")])
def test_a_section_about_a_kind_has_its_keys_and_knobs_and_no_others(heading: str, kind: str) -> None:
    spec = specs()[kind]
    keys = {name for row in tables.codes("dsl.md", heading, "key |") for name in row[0]}
    assert keys == spec.keys.keys()
    knobs = {name for row in tables.codes("dsl.md", heading, "knob") for name in row[0]}
    assert knobs == (spec.all_knobs().keys() if spec.knobs else set())


@pytest.mark.parametrize("heading", ["HTTP", "Python"])
def test_the_example_of_a_section_compiles_clean(heading: str) -> None:
    section = DOCS.split(f"\n## {heading}\n")[1]
    task = indent(section.split("```yaml\n")[1].split("```")[0], " " * 6)
    workload = "workload: {api: http://shop, shop: oslo, orders: [{id: 1, total: 2}], fetch: {prices: [1]}}"
    loop = "    loop: {in: \"{{ workload.orders }}\", iterator: order}"
    book = f"{head('docs', 'docs')}{workload}\nworkflow:\n  - step: start\n{loop}\n    tool:\n{task}"
    assert compile_playbook(book, kinds=specs()).diagnostics == ()


@pytest.mark.parametrize("limit", [
    source.MAX_NODES, source.MAX_ITEMS, source.MAX_ALIASES, source.MAX_DEPTH, root.MAX_STEPS, steps.MAX_TASKS,
    arcs.MAX_ARCS, assertions.MAX_ASSERTED, assertions.MAX_SELECTED, INLINE_MAX_BYTES,
    reader.MAX_ERRORS, reader.MAX_WARNINGS, task_policy.MAX_ATTEMPTS, loops.MAX_IN_FLIGHT, limits.MAX_PAYLOAD,
    limits.MAX_PLACES, limits.MAX_RATE, limits.MAX_KEY,
    step_policy.DEFAULT_MAX_PAYLOAD, loops.DEFAULT_IN_FLIGHT, source.MAX_TEMPLATES, source.MAX_CODE,
    source.MAX_SOURCE_ERRORS, bounds.MAX_FORMAL, bounds.MAX_COPIED,
    bounds.MAX_IN_PROGRAM, bounds.MAX_PROGRAM, token_net.MAX_STATES,
    token_net.MAX_MOVES, template_limits.MAX_TOKENS, template_limits.MAX_NESTING,
])
def test_limit_is_documented(limit: int) -> None:
    assert f" {limit:,}" in DOCS


@pytest.mark.parametrize("key", [
    *root.ROOT_KEYS, *root.METADATA_KEYS, *tasks.COMMON_KEYS, "step", "loop", "tool", "next", "in", "iterator",
    "do", "attempts", "backoff", "delay", "to", "set_iter", "set_ctx", *task_policy.ACTIONS, *task_policy.BACKOFFS,
])
def test_key_is_documented(key: str) -> None:
    assert f"`{key}`" in DOCS
