"""The bare name of an iterator is the element, whatever else is called so: FX §5.2, FS §6.2."""

import pytest

from shared.dsl.compile import compile_playbook
from shared.tools import registry
from tests.support.playbooks import head
from tests.unit.dsl.lower.support import Ran, answer, run

LOOP = 'loop: {in: [1, 2], iterator: item, mode: sequential}'


@pytest.mark.parametrize("before", [
    'vars: {item: "{{ result.v }}"}\n      next: each', 'set: {ctx.item: "{{ result.v }}"}\n      next: each',
    "next: [{step: each, args: {item: brought}}]", "next: {arcs: [{step: each, args: {item: brought}}]}",
    "case: [{when: \"{{ event.name == 'call.done' }}\", then: {set: {item: old}, next: each}}]",
    "case: [{when: \"{{ event.name == 'call.done' }}\", then: {next: [{step: each, args: {item: old}}]}}]",
])
@pytest.mark.parametrize("work", [
    'args: {current: "{{ item }}"}\n      tool: {kind: noop, args: {got: "{{ current }}"}}',
    'tool: {kind: noop, args: {got: "{{ item }}"}}',
    'tool: [{one: {kind: noop}}, {name: two, kind: noop, args: {got: "{{ item }}"}}]',
])
def test_the_bare_name_of_an_iterator_is_the_element(before: str, work: str) -> None:
    ran = run(f"""
    - step: start
      tool: {{kind: noop}}
      {before}
    - step: each
      {LOOP}
      {work}
    """, {"start_task": answer({"v": "old"})})
    assert [keys["args"]["got"] for _, keys in ran.calls if "got" in (keys.get("args") or {})] == [1, 2]


def test_so_are_those_of_the_loops_around_and_of_the_loop_of_a_task() -> None:
    ran = run("""
    - step: start
      tool: {kind: noop}
      vars: {a: 0, b: 0, c: 0}
      next: each
    - step: each
      loop: {in: [[1, 2], [3]], iterator: a, loop: {in: "{{ a }}", iterator: b}}
      tool: {name: t, kind: noop, loop: {in: "{{ [b, b * 10] }}", iterator: c}, args: {got: "{{ [a, b, c] }}"}}
    """)
    wanted = [[[1, 2], 1, 1], [[1, 2], 1, 10], [[1, 2], 2, 2], [[1, 2], 2, 20], [[3], 3, 3], [[3], 3, 30]]
    assert [keys["args"]["got"] for name, keys in ran.calls if name == "t"] == wanted


def test_rules_and_what_ends_a_loop_read_it_too() -> None:
    ran = run("""
    - step: start
      tool: {kind: noop}
      vars: {item: 9}
      next: each
    - step: each
      loop: {in: [1, 2, 3], iterator: item, spec: {mode: sequential, stop_when: "{{ item == 2 }}"}}
      tool:
        name: t
        kind: noop
        args: {got: "{{ item }}"}
        spec: {policy: {rules: [{when: "{{ item == 1 }}", then: {do: continue, set_ctx: {seen: "{{ item }}"}}},
                                {else: {then: {do: continue}}}]}}
    """)
    assert ([keys["args"]["got"] for name, keys in ran.calls if name == "t"], ran.ctx["seen"]) == ([1, 2], 1)


def test_what_no_other_thing_is_called_stays_as_it_was_written() -> None:
    ran = run(f"""
    - step: start
      {LOOP}
      tool: {{kind: noop, args: {{item: "{{{{ item }}}}"}}}}
    """)
    assert ran.plan.steps["start"].tasks[0].config["args"] == {"item": "{{ item }}"}


def test_before_the_fourth_edition_ctx_came_first() -> None:
    source = head("t") + f"""workflow:
  - {{step: start, tool: {{kind: noop}}, vars: {{item: old}}, next: each}}
  - {{step: each, {LOOP}, tool: {{kind: noop, args: {{got: "{{{{ item }}}}"}}}}}}
"""
    plans = [compile_playbook(source, kinds=registry.specs(), edition=edition).plan for edition in (3, 4)]
    found = [Ran(plan, {}).args("each_task") for plan in plans if plan is not None]
    assert found == [[{"got": "old"}] * 2, [{"got": 1}, {"got": 2}]]
