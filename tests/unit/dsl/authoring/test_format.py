"""The canonical source: one layout, the same plan, and nothing left to change."""

import ast
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.dsl.authoring import format as authoring_format
from shared.dsl.authoring.comments import comments_of
from shared.dsl.authoring.format import Migrated, canonical
from shared.dsl.authoring.scalar_style import literal, scalar
from shared.dsl.compile import compile_playbook
from shared.dsl.model.plan import Plan
from shared.dsl.source import nodes as source
from shared.dsl.source.load import load
from shared.tools import registry
from tests.conformance.stand.formal_books import BOOKS
from tests.property.test_lowering import FORMAL, TODAY
from tests.support.examples import PLAYBOOKS
from tests.support.inputs.trees import replaced
from tests.support.paths import ROOT
from tests.unit.engine.support import HEAD

KINDS = registry.specs()
BODIES = sorted((ROOT / "tests/conformance/canonical").glob("*.yaml"))
TESTS = sorted([*(ROOT / "tests/unit/dsl/lower").glob("test_*.py"), ROOT / "tests/conformance/test_formal.py"])
TREE = yaml.safe_load(FORMAL)
NOW = yaml.safe_load(TODAY)
words = st.sampled_from([
    "case", "when", "then", "else", "next", "sink", "tool", "kind", "noop", "workbook", "iterator", "set", "ctx.k",
    "retry", "vars", "args", "loop", "mode", "choose", "while", "until", "do", "collect", "into", "next_call", "start",
    "on_no_match", "result", "output_select", "assert", "cond", "a/b", "call", "retry_on", "entry_step", "{{`x`}}",
    "end", "{{ event.name == 'call.done' }}", "{{ vars.x }}", "{{ response", "{% if error %}", "", "params", "name",
])  # fmt: skip
values = st.recursive(
    st.one_of(words, st.text(max_size=8), st.integers(), st.booleans(), st.none()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4), max_leaves=12)
SMALL = HEAD + "workflow:\n  - {step: start, tool: {kind: noop, args: VALUE}}\n"


def same_but_places(plan: Plan | None) -> Plan:
    assert plan is not None
    steps = {
        name: replace(step, line=0, case=False, admit=tuple(replace(rule, line=0) for rule in step.admit),
                      tasks=tuple(replace(task, title="", role="", again=()) for task in step.tasks))
        for name, step in plan.steps.items()
    }
    return replace(plan, digest="", origins={}, steps=steps)


def check(text: str | bytes) -> str:
    """Same plan under strict, and a fixed point."""
    once = canonical(text, kinds=KINDS)
    assert once.text is not None, [str(each) for each in once.diagnostics]
    strict = compile_playbook(once.text, kinds=KINDS, strict=True).plan
    assert same_but_places(strict) == same_but_places(compile_playbook(text, kinds=KINDS).plan)
    again = canonical(once.text, kinds=KINDS)
    assert again.text == once.text
    return once.text


def data(text: str | bytes) -> Any:
    document, _ = load(text)
    assert document is not None
    return document.data


def playbooks_in(file: Path) -> list[str]:
    """The texts in a test file that compile, as a playbook or as a workflow."""
    found: list[str] = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "step" in node.value:
            texts = node.value, f"{HEAD}workflow:\n{indent(dedent(node.value), '  ')}"
            found += [text for text in texts if compile_playbook(text, kinds=KINDS).plan is not None]
    return found


@pytest.mark.parametrize("file", PLAYBOOKS, ids=lambda file: file.stem)
def test_a_canonical_playbook_keeps_its_data_and_its_plan(file: Path) -> None:
    text = file.read_bytes()
    written = check(text)
    if compile_playbook(text, kinds=KINDS, strict=True).plan is not None:
        assert data(written) == data(text)


@pytest.mark.parametrize("file", BODIES, ids=lambda file: file.stem)
def test_a_step_of_the_documents_keeps_its_data(file: Path) -> None:
    """They leave steps open, which stand here without tools."""
    body = file.read_text(encoding="utf-8")
    ends = {arc["step"] for step in yaml.safe_load(body) for arc in step["next"]["arcs"]}
    first = yaml.safe_load(body)[0]["step"]
    more = "".join(f"- {{step: {name}, tool: {{kind: noop}}}}\n" for name in sorted(ends))
    text = f"{HEAD}workflow:\n- {{step: start, next: {{arcs: [{{step: {first}}}]}}}}\n{body}{more}"
    assert data(check(text)) == data(text)


@pytest.mark.parametrize("name", BOOKS)
def test_a_formal_playbook_gives_the_same_plan_under_strict(name: str) -> None:
    assert compile_playbook(BOOKS[name].source, kinds=KINDS).plan is not None
    check(BOOKS[name].source)


@pytest.mark.parametrize("file", TESTS, ids=lambda file: file.stem)
def test_the_playbooks_of_other_tests_give_the_same_plan_under_strict(file: Path) -> None:
    for text in playbooks_in(file):
        check(text)


def test_the_other_tests_hold_playbooks() -> None:
    assert sum(len(playbooks_in(file)) for file in TESTS) >= 40


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(st.data(), st.sampled_from([TREE, NOW]))
def test_a_playbook_of_either_dialect_with_one_value_replaced(drawn: st.DataObject, tree: Any) -> None:
    text = yaml.safe_dump(replaced(tree, drawn, values, words), allow_unicode=True)
    if compile_playbook(text, kinds=KINDS).plan is None:
        assert canonical(text, kinds=KINDS).text is None
    else:
        check(text)


leaves = st.one_of(st.text(), st.integers(-(2**63), 2**63 - 1), st.booleans(), st.none(),
                   st.floats(allow_nan=False, allow_infinity=False),
                   st.text("ab \n\t#:-'\"\\{}[],&*!|>%@`?", max_size=30),
                   st.sampled_from(["1e3", "0x1", "2024-01-01", "1:30", "yes", "NULL", "~", "<<", "=", "a: b", "a #b"]))
trees = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
                     max_leaves=20)


@settings(max_examples=300, deadline=None)
@given(trees, st.booleans())
def test_every_value_is_read_back_as_it_was(value: Any, flow: bool) -> None:
    given = yaml.safe_dump({"workload": {"v": value}}, default_flow_style=flow, allow_unicode=False)
    head = HEAD + given.removeprefix("{").removesuffix("}\n") if flow else HEAD + given
    text = head + "\nworkflow: [{step: start, tool: {kind: noop}}]\n"
    migrated = canonical(text, kinds=KINDS)
    if migrated.text is not None:
        assert data(migrated.text) == data(text)
        assert canonical(migrated.text, kinds=KINDS).text == migrated.text


LAYOUT = """\
# Top of the file.

# Still the top.
kind: Playbook
# what it reads
workload: {b: 1, a: "x, y"}   # beside it
apiVersion: noetl.io/v2
metadata: {version: "1.0", name: layout}
# the way
workflow:
  # first
  # of two
  - tool:
      - spec: {timeout: 3}
        # about the code
        code: "a = 1\\n# not a comment\\nresult = a\\n"
        kind: python
        name: t
    step: start
    next: end

    # stands alone

  # the end
  - {tool: {kind: noop}, step: end}
"""
WRITTEN = """\
# Top of the file.

# Still the top.
apiVersion: noetl.io/v2
kind: Playbook
metadata: {version: "1.0", name: layout}
# what it reads
# beside it
workload: {b: 1, a: "x, y"}
# the way
workflow:
  # first
  # of two
  - step: start
    tool:
      - name: t
        kind: python
        # about the code
        code: |
          a = 1
          # not a comment
          result = a
        spec: {timeout: 3}
    next:
      arcs:
        - step: end

  # stands alone
  # the end
  - {step: end, tool: {kind: noop}}
"""


def test_the_layout_and_the_comments_that_stay() -> None:
    assert check(LAYOUT) == WRITTEN


COMMENTED = HEAD + """\
# the tasks
workbook:
  # greets
  - name: greet
    tool: {kind: noop, args: {to: you}}  # whom
workflow:
  # begins
  - step: start
    # what it keeps
    vars:
      n: 1  # one
    # what it does
    tool: {kind: workbook, name: greet}
    case:
      # when it is done
      - when: "{{ result }}"
        then:
          next: end  # goes on
  - step: end
# the last word
"""


def test_every_comment_of_what_is_rewritten_stays_near_it() -> None:
    written = check(COMMENTED)
    words = ["the tasks", "greets", "whom", "begins", "what it keeps", "one", "what it does", "when it is done",
             "goes on", "the last word"]
    lines = [line.strip() for line in written.splitlines()]
    assert sorted(line for line in lines if line.startswith("#")) == sorted(f"# {word}" for word in words)
    above_start = lines[lines.index("workflow:") + 1:lines.index("- step: start")]
    assert {"# begins", "# what it keeps"} <= set(above_start)
    assert lines[lines.index("# what it does") + 1] == "tool:"
    assert lines[-1] == "# the last word"


def test_a_comment_above_a_key_that_goes_stays_above_what_it_becomes() -> None:
    text = SMALL.replace("metadata: {name: test, path: tests/test}\n", "# why\nname: n\n").replace("VALUE", "{}")
    assert "# why\nmetadata:" in check(text)


@pytest.mark.parametrize(
    ("value", "comments"),
    [
        ("a # b", 1), ("'a # b'", 0), ('"a # b" # c', 1), ("a#b", 0), ("|\n    a\n    # b\n", 0),
        ("| # why\n    a\n    # b\n", 1), (">-\n    a # b\n  # c\n", 1), ("'a\n    # b\n    c' # d", 1),
    ],
)  # fmt: skip
def test_a_sign_inside_a_text_is_no_comment(value: str, comments: int) -> None:
    text = f"{HEAD}workload:\n  v: {value}\nworkflow: [{{step: start, tool: {{kind: noop}}}}]\n"
    written = check(text)
    again = load(written)[0]
    assert again is not None
    assert sum(map(len, comments_of(written, again).lines.values())) == comments


def test_aliases_are_written_out() -> None:
    written = check(SMALL.replace("VALUE", "{a: &x {k: 1}, b: *x, c: {<<: *x, l: 2}}"))
    assert "args: {a: {k: 1}, b: {k: 1}, c: {l: 2, k: 1}}" in " ".join(written.split())


@pytest.mark.parametrize("over", [0, 1])
def test_flow_style_stays_within_the_width(over: int) -> None:
    room = authoring_format.WIDTH - len("  - {step: start, tool: {kind: noop, args: {a: }}}")
    written = check(SMALL.replace("VALUE", f"{{a: {'x' * (room + over)}}}"))
    assert ("- {step" in written) == (over == 0)


def test_a_key_too_long_for_one_line_is_read_back() -> None:
    text = SMALL.replace("  - {step", "  - ? step\n    : start\n    tool: {kind: noop, args: {k: 1}}\n  - {step")
    text = text.replace("step: start, tool", "step: other, tool").replace("{k: 1}", '{? "' + "k" * 2000 + '" : 1}')
    assert data(check(text.replace("VALUE", "{}"))) == data(text.replace("VALUE", "{}"))


def test_what_grows_over_the_limit_of_a_source_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_SOURCE_BYTES", len(FORMAL) + 10)
    migrated = canonical(FORMAL, kinds=KINDS)
    assert (migrated.text, [each.code for each in migrated.diagnostics]) == (None, ["DSL109"])


@pytest.mark.parametrize("text", ["", "a: [", "{}", b"\xff", SMALL.replace("noop", "nope")])
def test_what_is_not_valid_has_no_text_but_diagnostics(text: str | bytes) -> None:
    migrated: Migrated = canonical(text, kinds=KINDS)
    assert migrated.text is None
    assert migrated.diagnostics


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("plain words", "plain words"), ("One, two", "One, two"), ("yes", '"yes"'), ("No", '"No"'), ("1.0", '"1.0"'),
        ("2024-01-01", '"2024-01-01"'), ("", '""'), ("{{ a }}", '"{{ a }}"'), ('{{ "a" }}', "'{{ \"a\" }}'"),
        ("a: b", '"a: b"'), ("a #b", '"a #b"'), ("\x07", '"\\x07"'), ("a\u2028b", '"a\\u2028b"'), (" a", '" a"'),
        (None, "null"), (True, "true"), (1e20, "1.0e+20"), (1.5e-9, "1.5e-09"), (-0.0, "-0.0"), (7, "7"),
    ],
)  # fmt: skip
def test_scalars(value: Any, written: str) -> None:
    assert scalar(value) == written


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a\nb\n", ["|", "  a", "  b"]), ("a\nb", ["|-", "  a", "  b"]), ("  a\n b\n", ["|2", "    a", "   b"]),
        ("\n\na\n", ["|2", "", "", "  a"]), ("a\n\n", []), ("\n", []), ("one line", []),
        ("a\r\nb", []), ("a\n\x07", []),
    ],
)  # fmt: skip
def test_literal_blocks(text: str, lines: list[str]) -> None:
    assert literal(text, 2) == lines
