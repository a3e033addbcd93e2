"""Whatever the bytes: the compiler answers with a plan or with errors, never raises, and is quick."""

import time
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.dsl.codes import CODES
from shared.dsl.compile import Compiled, compile_playbook
from tests.support.trees import replaced
from tests.unit.dsl.tool_kinds import KINDS

EXAMPLES = Path(__file__).parents[2] / "examples"
SOURCE = (EXAMPLES / "v10_pagination.yaml").read_bytes()
TREE = yaml.safe_load(SOURCE)

words = st.sampled_from([
    "step", "tool", "kind", "http", "noop", "spec", "policy", "rules", "when", "then", "else", "do", "retry",
    "jump", "to", "next", "arcs", "loop", "in", "iterator", "start", "end", "args", "admit", "allow", "mode",
    "{{ a.b }}", "{{ a", "{% if x %}", "{{ keychain.x }}", "{{ ((((1)))) }}", "workflow", "metadata", "<<", "",
])
scalars = st.one_of(words, st.text(max_size=12), st.integers(), st.floats(), st.booleans(), st.none())
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=5), max_leaves=20)


MAX_S = 0.2


def timed(source: str | bytes) -> tuple[Compiled, float]:
    began = time.process_time()
    compiled = compile_playbook(source, kinds=KINDS, file="p.yaml")
    return compiled, time.process_time() - began


def check(source: str | bytes) -> None:
    compiled, taken = timed(source)
    assert taken < MAX_S or min(timed(source)[1] for _ in range(2)) < MAX_S
    failed = any(each.severity == "error" for each in compiled.diagnostics)
    assert (compiled.plan is None) == failed
    assert list(compiled.diagnostics) == sorted(compiled.diagnostics)
    for each in compiled.diagnostics:
        assert each.code in CODES
        assert each.line >= 1
        assert each.column >= 1
        assert each.message
        assert each.fix


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200))
def test_any_bytes(source: str | bytes) -> None:
    check(source)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, len(SOURCE) - 1), st.integers(0, 40), st.binary(max_size=8))
def test_a_playbook_with_bytes_replaced(start: int, length: int, middle: bytes) -> None:
    check(SOURCE[:start] + middle + SOURCE[start + length:])


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.sampled_from(["apiVersion", "kind", "metadata", "keychain", "executor", "workload",
                                        "workflow", "workbook", "vars"]), values))
def test_any_values_under_the_root(root: dict[str, Any]) -> None:
    check(yaml.safe_dump(root, allow_unicode=True))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_playbook_with_one_value_replaced(data: st.DataObject) -> None:
    check(yaml.safe_dump(replaced(TREE, data, values, words), allow_unicode=True))
