"""The compiler against hostile sources: an answer within 200 ms of CPU time and 50 MB.

Sources that are to be refused keep it up to the largest source there is (512 KiB); dense content, of which every
part must be read, up to 8 KiB. Beyond, work grows with the content, within the limits of docs/dsl.md."""

import json
import subprocess
import sys
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import meta

from shared.dsl.templates import evaluate as template
from shared.dsl.templates.analysis import facts
from shared.dsl.templates.compiler import parse
from shared.dsl.templates.names import free_names
from tests.support.inputs.bounds import DENSE_BYTES, MAX_S
from tests.support.paths import ROOT

MAX_MB = 50


@cache
def measured() -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.support.inputs.bounds"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=100,
                          check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_no_source_takes_over_200_ms() -> None:
    assert {name: taken for name, taken in measured()["seconds"].items() if taken > MAX_S} == {}


def test_all_sources_together_take_under_50_mb() -> None:
    assert measured()["mb"] < MAX_MB


def test_the_corpus_is_large_and_fills_its_size() -> None:
    sizes = measured()["sizes"]
    assert len(sizes) > 120
    assert sum(size > 500 * 1024 for size in sizes) > 30
    assert sum(size > DENSE_BYTES * 3 // 4 for size in sizes) > 80


PIECES = st.sampled_from([
    "a", "b.c", "1", "'x'", "[a]", "{'k': a}", "f(a, b=1)", "a[1:2]", "a is defined", "a | default(1)", "not a",
    "a if b else c", "a ~ b", "f(a=1, a=2)", "f(*a)", "loop.index", "self", "super()", "a.get('k')", "-a", "a ** b",
    "a | map('upper') | list", "(a, b)", "a in [1]", "caller()", "class", "f(class=1)", "a | replace('x', y='z')",
])
JOINED = st.lists(PIECES, min_size=1, max_size=4).map(" + ".join)
BLOCKS = st.sampled_from([
    "{%% if %s %%}x{%% endif %%}", "{%% for i in %s %%}{{ i }}{%% endfor %%}", "{%% set v = %s %%}{{ v }}",
    "{%% for loop in %s %%}{%% endfor %%}", "{%% set a, b = %s %%}", "{%% set x %%}{{ %s }}{%% endset %%}",
    "{%% with a = %s %%}{{ a }}{%% endwith %%}", "{%% set x | default(y) %%}{{ %s }}{%% endset %%}",
    "{%% for i in %s %%}{%% set loop = i %%}{%% endfor %%}",
    "{%% with a = %s, b = a %%}{%% set c = b %%}{%% endwith %%}",
    "{%% if %s %%}{%% set a = 1 %%}{%% elif b %%}{%% set i = b %%}{%% else %%}{{ loop }}{%% endif %%}",
    "{%% for i in %s if loop %%}{%% set a = i %%}{%% else %%}{{ i ~ loop }}{%% endfor %%}",
    "{%% set ns.x | replace('a', b) %%}{{ %s }}{%% endset %%}",
    "{%% for a, b in %s if a %%}{{ loop.index }}{%% else %%}{%% endfor %%}",
    "{{ %s }}", "x {{ %s }} y", "{%% set ns.x = %s %%}",
])


@settings(max_examples=300, deadline=None)
@given(BLOCKS, JOINED, st.integers(0, 60))
def test_of_what_the_compiler_passes_code_can_be_made(block: str, inner: str, depth: int) -> None:
    text = block % ("(" * min(depth, 10) + inner + ")" * min(depth, 10))
    assert facts(text).wrong == template.check(text)


@settings(max_examples=300, deadline=None)
@given(st.lists(BLOCKS, min_size=1, max_size=30), st.lists(PIECES, min_size=1, max_size=30))
def test_of_blocks_within_each_other_too(blocks: list[str], pieces: list[str]) -> None:
    text = "{{ a }}"
    for place, block in enumerate(blocks):
        before, sign, after = (block % pieces[place % len(pieces)]).rpartition("{%")
        text = before + text + sign + after
    assert facts(text).wrong == template.check(text)
    if facts(text).wrong is None:
        tree = parse(text)
        assert free_names(tree) == meta.find_undeclared_variables(tree)


@pytest.mark.parametrize("nest", [
    "{%% for i in x %%}%s{%% endfor %%}", "{%% for i, j in x if i %%}%s{{ loop.index }}{%% endfor %%}",
    "{%% for i in x %%}{%% else %%}%s{%% endfor %%}", "{%% with i = 1 %%}%s{%% endwith %%}",
    "{%% set i %%}%s{%% endset %%}", "{%% if i %%}%s{%% else %%}{%% set i = 1 %%}{%% endif %%}",
    "{%% set i | upper %%}{%% for i in x %%}%s{%% endfor %%}{%% endset %%}",
    "{%% if a %%}{%% else %%}{%% for i in f(*a, **b) %%}%s{%% endfor %%}{%% endif %%}",
    "{%% with i, j = 1, 2 %%}{%% for k in x %%}{%% else %%}%s{%% endfor %%}{%% endwith %%}",
])
def test_the_deepest_blocks_that_pass_can_be_run(nest: str) -> None:
    for depth in (*range(1, 90, 9), *range(18, 24), *range(36, 44), *range(76, 82)):
        text = "x"
        for _ in range(depth):
            text = nest % text
        assert facts(text).wrong == template.check(text)


def test_loops_that_are_nested_too_deeply_are_refused_with_their_line() -> None:
    assert facts("{% for i in x %}" * 20 + "{% endfor %}" * 20).wrong is None
    wrong = facts("{% for i in x %}\n" * 21 + "{% endfor %}" * 21).wrong
    assert wrong == ("loops are nested too deeply (limit 20 levels)", 20)


@pytest.mark.parametrize("nest", ["[%s]", "f(%s)", "(%s).a", "not %s", "(%s == b)", "%s | default(b)", "(%s in b)",
                                  "-%s", "(%s + 1)", "{'k': %s}", "%s[0]", "(b if %s else c)"])
def test_the_deepest_template_that_passes_can_be_run(nest: str) -> None:
    """Of every way to nest: what the limit of nesting lets through, the code generator and Python take too."""
    passing = 0
    for depth in (*range(1, 90, 6), *range(70, 84)):
        text = "a"
        for _ in range(depth):
            text = nest % text
        text = "{{ " + text + " }}"
        if facts(text).wrong is None:
            passing = depth
            assert template.check(text) is None
    assert passing >= 20
