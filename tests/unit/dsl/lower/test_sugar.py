"""`choose`, `while`, `until` (V10 §14): jumps with stable labels and a merge point."""

import pytest

from tests.unit.dsl.lower.support import run
from tests.unit.engine.support import plan_of

CHOOSE = """
- step: start
  tool:
    - {name: before, kind: noop, args: {n: "{{ workload.n }}"}}
    - choose:
        - when: "{{ _prev.n == 1 }}"
          then: [{name: one, kind: noop, args: {was: one}}, {kind: noop, args: {was: "{{ _prev.was }} more"}}]
        - when: "{{ _prev.n == 2 }}"
          then: {name: two, kind: noop, args: {was: two}}
        - else: [{name: other, kind: noop, args: {was: "{{ _prev.n | default('another branch') }}"}}]
    - {name: behind, kind: noop, args: {got: "{{ _prev.was }}"}}
"""


@pytest.mark.parametrize(("n", "got"), [(1, "one more"), (2, "two"), (3, 3)])
def test_choose_takes_one_branch_and_goes_on_behind_it(n: int, got: object) -> None:
    ran = run(CHOOSE, n=n)
    assert ran.args("behind") == [{"got": got}]
    assert [name for name, _ in ran.calls if name in ("one", "two", "other")] == [("one", "two", "other")[n - 1]]


def test_choose_without_a_match_changes_nothing() -> None:
    ran = run("""
    - step: start
      tool:
        - {name: before, kind: noop, args: {n: 7}}
        - {name: pick, choose: [{when: "{{ _prev.n == 1 }}", then: [{name: one, kind: noop}]}]}
        - {name: behind, kind: noop, args: {got: "{{ _prev.n }}"}}
    """)
    assert ran.args("behind") == [{"got": 7}]


SET = "spec: {policy: {rules: [{else: {then: {do: continue, set_iter: {n: '{{ (iter.n | default(0)) + 1 }}'}}}}]}}"


@pytest.mark.parametrize(
    ("kind", "when", "times"),
    [
        ("while", "(iter.n | default(0)) < 3", 3), ("while", "false", 0),
        ("until", "iter.n >= 3", 3), ("until", "true", 1),
    ],
)
def test_while_tests_before_and_until_behind_its_tasks(kind: str, when: str, times: int) -> None:
    ran = run(f"""
    - step: start
      tool:
        - {kind}: {{when: "{{{{ {when} }}}}", do: [{{name: body, kind: noop, {SET}}}]}}
        - {{name: behind, kind: noop}}
    """)
    assert [name for name, _ in ran.calls] == ["body"] * times + ["behind"]


def test_sugar_inside_sugar() -> None:
    ran = run(f"""
    - step: start
      tool:
        - while:
            when: "{{{{ (iter.n | default(0)) < 4 }}}}"
            do:
              - {{name: body, kind: noop, {SET}}}
              - choose: [{{when: "{{{{ iter.n % 2 == 0 }}}}", then: [{{name: even, kind: noop}}]}}]
    """)
    assert [name for name, _ in ran.calls] == ["body", "body", "even", "body", "body", "even"]


def test_labels_are_stable_and_say_what_they_stand_for() -> None:
    first, again = plan_of(CHOOSE), plan_of(CHOOSE)
    assert first == again
    assert {"start_choose", "start_choose_end", "start_choose_1_end"} <= set(first.origins)
    origin = first.origins["start_choose"]
    assert (origin.what, origin.line) == ("a choose of step start", 10)


def test_a_loop_without_a_test_is_told() -> None:
    with pytest.raises(AssertionError, match="DSL501"):
        plan_of("- {step: start, tool: [{while: {do: [{kind: noop}]}}]}")


@pytest.mark.parametrize("wait", ['for: 1s', 'until: "2026-01-01T00:00:00Z"'])
def test_until_of_a_wait_is_no_sugar(wait: str) -> None:
    """V10 §7.4: a single task is called after its step, and its rules are those of a task."""
    rules = "spec: {policy: {rules: [{when: \"{{ output.status == 'error' }}\", then: {do: fail}}]}}"
    plan = plan_of(f"- {{step: start, tool: {{kind: wait, {wait}, {rules}}}}}")
    (task,) = plan.steps["start"].tasks
    assert (task.name, (task.rules or ())[0].when) == ("start_task", "{{ outcome.status == 'error' }}")
    listed = plan_of(f"- {{step: start, tool: [{{name: w, kind: wait, {wait}, {rules}}}]}}").steps["start"].tasks
    assert (listed[0].name, (listed[0].rules or ())[0].when) == ("w", "{{ outcome.status == 'error' }}")
