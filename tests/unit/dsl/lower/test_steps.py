"""Step keys of the formal dialect: next, loop mode, args, vars, set."""

from typing import Any

import pytest

from shared.dsl.compile import compile_playbook
from shared.events.outcome import ok
from shared.tools import registry
from tests.unit.dsl.lower.support import answer, page, run, step_of, task_of

TAIL = "\n- {step: a, tool: {kind: noop}}\n- {step: b, tool: {kind: noop}}"


def test_root_name_and_path_become_metadata() -> None:
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nname: old\npath: some/where\n"
    source = head + "workflow: [{step: start, next: end}, {step: end}]"
    plan = compile_playbook(source, kinds=registry.specs()).plan
    assert plan is not None
    assert (plan.name, plan.path) == ("old", "some/where")


@pytest.mark.parametrize(
    ("following", "mode", "targets"),
    [
        ("a", "exclusive", ["a"]), ("[a]", "exclusive", ["a"]), ("[a, b]", "inclusive", ["a", "b"]),
        ("[{step: a}]", "exclusive", ["a"]), ("[{step: a}, {step: b}]", "inclusive", ["a", "b"]),
        ("{step: b}", "exclusive", ["b"]),
    ],
)  # fmt: skip
def test_next_in_every_short_shape_becomes_arcs(following: str, mode: str, targets: list[str]) -> None:
    step = step_of(f"- {{step: start, tool: {{kind: noop}}, next: {following}}}{TAIL}")
    assert (step.mode, [arc.step for arc in step.arcs]) == (mode, targets)


def test_next_hands_its_args_to_the_step() -> None:
    ran = run("""
    - {step: start, tool: {kind: noop, args: {n: 7}}, next: [{step: a, args: {m: "{{ start.n + 1 }}"}}]}
    - {step: a, tool: {kind: noop, args: {got: "{{ args.m }}"}}}
    """)
    assert ran.args("a_task") == [{"got": 8}]


@pytest.mark.parametrize(
    ("mode", "wanted"), [("sequential", "sequential"), ("parallel", "parallel"), ("async", "parallel")])
def test_loop_mode_beside_in(mode: str, wanted: str) -> None:
    step = step_of(f"- {{step: start, loop: {{in: [1, 2], iterator: n, mode: {mode}}}, tool: {{kind: noop}}}}")
    assert step.loop is not None
    assert step.loop.mode == wanted


def test_args_of_a_step_are_bound_and_beat_ctx_of_the_same_name() -> None:
    ran = run("""
    - {step: start, tool: {kind: noop}, vars: {n: 1}, next: a}
    - {step: a, args: {n: "{{ vars.n + 1 }}"}, tool: {kind: noop, args: {bare: "{{ n }}", full: "{{ args.n }}"}}}
    """)
    assert ran.args("a_task") == [{"bare": 2, "full": 2}]


def test_a_program_gets_the_args_of_its_step_as_variables() -> None:
    ran = run("- {step: start, args: {n: 1, m: 2}, tool: {kind: python, args: {m: 3}, code: 'result = n'}}")
    assert ran.calls == [("start_task", {"args": {"n": 1, "m": 3}, "code": "result = n"})]


def test_input_is_another_word_for_args() -> None:
    ran = run("- {step: start, input: {n: 1}, tool: {kind: noop, input: {got: '{{ n }}'}}}")
    assert ran.args("start_task") == [{"got": 1}]


def test_a_loop_over_an_argument() -> None:
    ran = run("""
    - step: start
      args: {all: "{{ workload.numbers }}"}
      loop: {in: "{{ all }}", iterator: n}
      tool: {kind: noop, args: {n: "{{ n }}"}}
    """, numbers=[4, 5])
    assert ran.args("start_task") == [{"n": 4}, {"n": 5}]


def test_vars_are_taken_from_the_result_and_read_as_vars_later() -> None:
    """FS §11.3."""
    rows = ok({"rows": [{"user_id": 3, "email": "a@b"}], "row_count": 1, "columns": []}, shape="sql")
    ran = run("""
    - step: start
      tool: {kind: postgres, query: "SELECT user_id, email FROM users WHERE id = 1"}
      vars: {user_id: "{{ result[0].user_id }}", all: "{{ result }}", count: "{{ this.row_count }}"}
      next: [{step: send}]
    - {step: send, tool: {kind: noop, args: {id: "{{ vars.user_id }}"}}}
    """, {"start_task": lambda _keys: rows})
    assert ran.args("send_task") == [{"id": 3}]
    assert (ran.ctx["all"], ran.ctx["count"]) == ([{"user_id": 3, "email": "a@b"}], 1)


def test_the_result_of_a_step_with_vars_is_still_its_tools() -> None:
    ran = run("- {step: start, tool: {kind: http, url: 'http://x'}, vars: {code: '{{ response.status_code }}'}}",
              {"start_task": lambda _keys: page({"a": 1})})
    assert ran.result("start") == {"status_code": 200, "headers": {}, "data": {"a": 1}}
    assert ran.ctx == {"code": 200}


@pytest.mark.parametrize("written", [
    "set_ctx: {k: '{{ result.n }}'}", "set: {ctx.k: '{{ output.data.n }}'}", "set: {k: '{{ start.n }}'}",
    "set: {ctx: {k: '{{ outcome.result.n }}'}}", "set: [{name: k, value: '{{ response.n }}'}]",
])
def test_set_on_a_step_in_every_shape(written: str) -> None:
    ran = run(f"- {{step: start, tool: {{kind: noop}}, {written}}}", {"start_task": answer({"n": 5})})
    assert ran.ctx == {"k": 5}


@pytest.mark.parametrize("written", [
    "set_ctx: {k: '{{ outcome.result.n }}'}", "set: {ctx.k: '{{ output.data.n }}'}",
    "spec: {policy: {rules: [{else: {do: continue, set: {ctx.k: '{{ output.result.n }}'}}}]}}",
])
def test_set_on_a_task_and_in_its_rules(written: str) -> None:
    ran = run(f"- {{step: start, tool: [{{name: t, kind: noop, {written}}}]}}", {"t": answer({"n": 5})})
    assert ran.ctx == {"k": 5}


def test_a_break_of_the_author_still_sets_what_the_step_sets() -> None:
    ran = run("""
    - step: start
      tool:
        - {name: one, kind: noop, spec: {policy: {rules: [{else: {then: {do: break}}}]}}}
        - {name: two, kind: noop}
      set_ctx: {k: "{{ result.n }}"}
    """, {"one": answer({"n": 6})})
    assert (ran.ctx, ran.result("start"), [name for name, _ in ran.calls]) == ({"k": 6}, {"n": 6}, ["one"])


@pytest.mark.parametrize(("written", "key"), [("endpoint: 'http://x'", "url"), ("spec: {url: 'http://x'}", "url")])
def test_other_places_and_names_of_a_tools_keys(written: str, key: str) -> None:
    task = task_of(f"- {{step: start, tool: {{kind: http, {written}}}}}", "start_task")
    assert task.config[key] == "http://x"


@pytest.mark.parametrize(("auth", "wanted"), [("{}", None), ("{type: postgres, credential: pg}", "pg"),
                                              ("{source: credential, key: pg}", "pg")])
def test_auth_as_a_mapping_names_a_credential(auth: str, wanted: Any) -> None:
    task = task_of(f"- {{step: start, tool: {{kind: postgres, command: SELECT 1, auth: {auth}}}}}", "start_task")
    assert task.config.get("auth") == wanted


def test_iterator_as_a_kind_is_the_loop_of_its_step() -> None:
    ran = run("""
    - step: start
      tool:
        kind: iterator
        collection: [1, 2]
        element: n
        mode: async
        tool: {kind: noop, args: {n: "{{ n }}"}}
    """)
    assert sorted(found["n"] for found in ran.args("start_task")) == [1, 2]
    loop = ran.plan.steps["start"].loop
    assert loop is not None
    assert loop.mode == "parallel"


def test_an_arc_reads_the_arguments_of_its_step() -> None:
    ran = run("""
    - step: start
      args: {city: "{{ workload.city }}", size: 3}
      tool: {kind: noop}
      next: [{step: a, args: {got: "{{ city }}", size: "{{ args.size }}"}}]
    - {step: a, tool: {kind: noop, args: {got: "{{ args.got }}", size: "{{ args.size }}"}}}
    """, city="Oslo")
    assert ran.args("a_task") == [{"got": "Oslo", "size": 3}]


def test_an_arc_may_not_read_an_argument_that_may_have_changed() -> None:
    arc = "{step: start, args: {m: '{{ n }}'}}"
    with pytest.raises(AssertionError, match=r"DSL301.*write vars: {n:"):
        step_of("- {step: start, args: {n: '{{ vars.n }}'}, tool: {kind: noop}, next: [" + arc + "]}")


def test_knobs_beside_the_keys_of_a_tool_go_to_its_spec() -> None:
    tool = "{kind: http, url: 'http://x', verify_ssl: false, spec: {timeout: 3}}"
    task = task_of("- {step: start, tool: " + tool + "}", "start_task")
    assert (task.spec["verify"], task.spec["timeout"], "verify_ssl" in task.config) == (False, 3, False)


@pytest.mark.parametrize("following", [
    "[{step: a, args: {m: 1}, set: {ctx.k: '{{ result.n }}'}}]",
    "{arcs: [{step: a, args: {m: 1}, set: {ctx.k: '{{ event.result.n }}'}}]}",
])
def test_set_on_an_arc_is_written_on_the_way(following: str) -> None:
    ran = run(f"""
    - {{step: start, tool: {{kind: noop, args: {{n: 4}}}}, next: {following}}}
    - {{step: a, tool: {{kind: noop, args: {{m: "{{{{ args.m }}}}", k: "{{{{ ctx.k }}}}"}}}}}}
    """)
    assert (ran.steps, ran.args("a_task")) == (["start", "start_to_a", "a"], [{"m": 1, "k": 4}])
