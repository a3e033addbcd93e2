"""What a playbook compiles to."""

import hashlib
from pathlib import Path

import pytest

from shared.dsl.compile import compile_playbook
from shared.dsl.model.edition import plan_name
from shared.dsl.model.plan import AdmitRule, Arc, Directive, Loop, Plan, Rule, Step
from shared.tools.registry import specs
from tests.support.examples import PLAYBOOKS
from tests.support.paths import EXAMPLES
from tests.support.playbooks import head
from tests.unit.dsl.tool_kinds import KINDS

HEAD = head("example")


def plan(source: str) -> Plan:
    compiled = compile_playbook(source, kinds=KINDS)
    assert [str(each) for each in compiled.diagnostics if each.severity == "error"] == []
    assert compiled.plan is not None
    return compiled.plan


def step(body: str, *, head: str = HEAD) -> Step:
    return plan(f"{head}workflow:\n  - step: start\n    {body}\n").steps["start"]


@pytest.mark.parametrize("name", ["v10_pagination", "dsl2_minimal", "pipe_pipeline"])
def test_examples_of_the_specifications_compile_clean(name: str) -> None:
    compiled = compile_playbook((EXAMPLES / f"{name}.yaml").read_bytes(), kinds=KINDS)
    assert compiled.diagnostics == ()
    assert compiled.plan is not None
    assert compiled.plan.name == name


@pytest.mark.parametrize("file", PLAYBOOKS, ids=lambda file: file.stem)
def test_every_example_compiles_clean_with_the_installed_tools(file: Path) -> None:
    assert compile_playbook(file.read_bytes(), kinds=specs()).diagnostics == ()


def test_v10_pagination_plan() -> None:
    compiled = plan((EXAMPLES / "v10_pagination.yaml").read_text(encoding="utf-8"))
    fetch = compiled.steps["fetch_all_endpoints"]
    assert fetch.loop == Loop("{{ workload.endpoints }}", "endpoint", "parallel", 10)
    assert [task.name for task in fetch.tasks] == [
        "init_iter", "fetch_page", "route_by_status", "store_200", "store_404", "paginate"]
    assert (fetch.timeout_s, fetch.failure, fetch.max_payload_bytes) == (600.0, "best_effort", 1048576)
    assert fetch.admit == (AdmitRule(allow=True, line=49),)
    page = fetch.tasks[1]
    assert page.spec == {"timeout": {"connect": 5, "read": 15}}
    assert page.rules is not None
    assert page.rules[0].then == Directive("retry", attempts=10, backoff="exponential", delay=2.0)
    assert compiled.reach["start"] == frozenset(compiled.steps) - {"start"}
    assert "endpoints" in fetch.needs.workload
    assert "api_url" in fetch.needs.workload


def test_a_plan_is_named_by_the_digest_of_the_source_bytes_and_the_edition() -> None:
    source = f"{HEAD}workflow: [{{step: start, tool: {{kind: noop}}}}] # ü\n"
    assert plan(source).digest == plan_name(hashlib.sha256(source.encode()).hexdigest())
    assert compile_playbook(source.encode(), kinds=KINDS).plan == plan(source)


def test_header_defaults() -> None:
    compiled = plan(f"{HEAD}workflow: [{{step: start, tool: {{kind: noop}}}}]")
    assert (compiled.name, compiled.path, compiled.version) == ("example", "example", "1")
    assert (compiled.workload, compiled.keychain, compiled.timeout_s) == ({}, (), None)


def test_executor_settings_reach_plan_and_steps() -> None:
    head = HEAD + ("executor:\n  kind: local\n  spec:\n    pool: big\n    policy:\n"
                   "      defaults: {timeouts: {execution_s: 60, step_s: 7}}\n"
                   "      limits: {max_payload_bytes: 1000}\n")
    source = head + ("workflow:\n  - {step: start, tool: {kind: noop}, next: {arcs: [{step: end}]}}\n"
                     "  - {step: end, spec: {pool: own, policy: {lifecycle: {timeout_s: 3, deadline_s: 9}}}}\n")
    compiled = plan(source)
    start, end = compiled.steps["start"], compiled.steps["end"]
    assert compiled.timeout_s == 60.0
    assert (start.pool, start.timeout_s, start.deadline_s, start.max_payload_bytes) == ("big", 7.0, None, 1000)
    assert (end.pool, end.timeout_s, end.deadline_s) == ("own", 3.0, 9.0)


def test_three_task_shapes_and_labels() -> None:
    assert [task.name for task in step("tool: {kind: noop}").tasks] == ["start_task"]
    assert [task.name for task in step("tool: {kind: noop, name: mine}").tasks] == ["mine"]
    listed = step("tool: [{kind: noop}, {name: b, kind: noop}, {c: {kind: noop}}, {kind: noop}]")
    assert [task.name for task in listed.tasks] == ["task_0", "b", "c", "task_3"]


def test_task_config_holds_the_tools_own_keys() -> None:
    body = 'tool: {name: x, kind: http, desc: d, url: "{{ u }}", auth: cred, args: {a: 1}, spec: {verify: false}}'
    task = step(body).tasks[0]
    assert task.config == {"url": "{{ u }}", "auth": "cred", "args": {"a": 1}}
    assert task.spec == {"timeout": {"connect": 10}, "verify": False}
    assert task.rules is None


def test_both_shapes_of_else_and_literal_conditions() -> None:
    first = step("tool: {kind: noop, spec: {policy: {rules: [{when: true, then: {do: break}}, "
                 "{else: {then: {do: fail}}}]}}}").tasks[0]
    second = step("tool: {kind: noop, spec: {policy: {rules: [{when: true, then: {do: break}}, "
                  "{else: , then: {do: fail}}]}}}").tasks[0]
    assert first.rules == second.rules == (Rule(Directive("break"), when=True), Rule(Directive("fail")))


def test_condition_may_be_a_template_of_blocks() -> None:
    text = "{% if a %}true{% else %}false{% endif %}"
    found = step(f'next: {{arcs: [{{step: start, when: "{text}"}}]}}')
    assert found.arcs == (Arc("start", text),)


def test_arcs_keep_order_condition_and_args() -> None:
    found = step('next: {spec: {mode: inclusive, policy: {}}, arcs: [{step: start, args: {a: "{{ b }}"}}, '
                 "{step: start, when: false}]}")
    assert found.mode == "inclusive"
    assert found.arcs == (Arc("start", None, {"a": "{{ b }}"}), Arc("start", False))


@pytest.mark.parametrize(("spec", "mode", "most"), [
    ("{}", "sequential", 1),
    ("{mode: parallel}", "parallel", 100),
    ("{mode: parallel, max_in_flight: 1000}", "parallel", 1000),
    ("{policy: {mode: parallel, max_in_flight: 3, exec: distributed}}", "parallel", 3),
    ("{max_in_flight: 8}", "sequential", 1),
])
def test_loop_modes(spec: str, mode: str, most: int) -> None:
    loop = step(f"loop: {{in: [1], iterator: item, spec: {spec}}}\n    tool: {{kind: noop}}").loop
    assert loop is not None
    assert (loop.mode, loop.max_in_flight) == (mode, most)


def test_needs_cover_what_the_worker_renders_and_nothing_else() -> None:
    found = plan(f"""{HEAD}
workflow:
  - step: start
    spec: {{policy: {{admit: {{rules: [{{when: "{{{{ admitted }}}}", then: {{allow: true}}}}]}}}}}}
    loop: {{in: "{{{{ items }}}}", iterator: item}}
    tool:
      - {{name: a, kind: python, code: "'{{{{ not_rendered }}}}'", args: {{x: "{{{{ given }}}}"}}}}
      - name: b
        kind: http
        url: "{{{{ workload.url }}}}"
        spec:
          timeout: "{{{{ patience }}}}"
          policy:
            rules:
              - when: "{{{{ ctx.go }}}}"
                then: {{do: retry, attempts: 2, delay: "{{{{ pause }}}}", set_ctx: {{k: "{{{{ kept }}}}"}}}}
              - else: {{then: {{do: continue}}}}
    next: {{arcs: [{{step: start, when: "{{{{ routed }}}}", args: {{y: "{{{{ passed }}}}"}}}}]}}
""").steps["start"].needs
    assert {"items", "given", "patience", "pause", "kept"} <= found.names
    assert not {"admitted", "not_rendered", "routed", "passed"} & found.names
    assert "go" in found.ctx
    assert "url" in found.workload


def test_empty_sections_are_accepted() -> None:
    source = f"{HEAD}keychain:\nworkload:\nworkbook: {{tasks: {{}}}}\nworkflow: [{{step: start, tool: {{kind: noop}}}}]"
    assert plan(source).workload == {}
    assert plan(source.replace("{tasks: {}}", "[]")).keychain == ()


def test_keychain_may_be_read_in_a_tool_call() -> None:
    task = step('tool: {kind: http, url: x, headers: {a: "{{ keychain.api.token }}"}}').tasks[0]
    assert task.config["headers"] == {"a": "{{ keychain.api.token }}"}


def test_reducers_are_kept_as_written() -> None:
    task = step("tool: {kind: noop, spec: {policy: {rules: [{else: {then: {do: continue, "
                "set_ctx: {n: {$add: 1}, list: {$append: x}}}}}]}}}").tasks[0]
    assert task.rules is not None
    assert task.rules[0].then.set_ctx == {"n": {"$add": 1}, "list": {"$append": "x"}}


def test_step_keeps_line_and_description() -> None:
    found = step("desc: what it does\n    tool: {kind: noop}")
    assert (found.line, found.desc) == (5, "what it does")


def test_diagnostics_are_sorted_by_place() -> None:
    compiled = compile_playbook("workflow: 5\nkind: x\nzzz: 1\n", kinds=KINDS)
    places = [(each.line, each.column) for each in compiled.diagnostics]
    assert places == sorted(places)
    assert len(places) > 4


def test_what_a_keychain_entry_cannot_do_is_told() -> None:
    source = (
        head("a")
        + "keychain: [{name: api, kind: bearer, provider: gcp, map: {token: x}}]\n"
        "workflow: [{step: start, tool: {kind: noop}}]\n"
    )
    compiled = compile_playbook(source, kinds=specs())
    assert [(each.code, each.severity, each.line, each.column) for each in compiled.diagnostics] == [
        ("DSL903", "warning", 4, 38)
    ]
    assert "provider and map of a keychain entry change nothing" in compiled.diagnostics[0].message
