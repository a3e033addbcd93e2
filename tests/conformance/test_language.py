"""The decisions of the language that the pure engine shows: names, routing, admission, patches, bounds."""

from typing import Any

import pytest

from shared.dsl.compile import compile_playbook
from shared.dsl.templates.evaluate import evaluate
from shared.engine.values.scope import visible
from shared.engine.values.stored_values import MAX_WORKLOAD_BYTES
from shared.events import model as ev
from shared.events.outcome import Outcome, Result, failed, ok
from shared.tools import registry
from tests.conformance.stand.lab import playbook
from tests.unit.engine.support import Driver, nothing, plan_of

# -- names ------------------------------------------------------------------------------------

STEPS, WORKLOAD, ITER, CTX, ARGS = "steps", "workload", "iter", "ctx", "args"


@pytest.mark.parametrize("top", [STEPS, WORKLOAD, ITER, CTX, ARGS])
def test_a_bare_name_is_read_from_args_then_ctx_then_iter_then_workload_then_steps(top: str) -> None:
    """DSL2 §3.6, FS §2.3: each scope is hidden by the ones after it."""
    scopes = [STEPS, WORKLOAD, ITER, CTX, ARGS]
    have = {scope: {"name": scope} for scope in scopes[: scopes.index(top) + 1]}
    steps = {"name": Result(STEPS)}
    scope = ev.Scope(have.get(WORKLOAD, {}), have.get(CTX, {}), steps)
    assert visible("x1", scope, have.get(ARGS, {}), have.get(ITER))["name"] == top


def test_a_namespace_is_never_hidden_by_data_of_the_same_name() -> None:
    data = {"ctx": 1, "workload": 2, "args": 3, "execution_id": 4, "iter": 5}
    names = visible("x1", ev.Scope(data, {}, {}), {}, {"index": 0})
    assert (names["ctx"], names["workload"], names["execution_id"], names["iter"]) == ({}, data, "x1", {"index": 0})


def test_an_iteration_sees_its_element_by_name_its_index_and_the_execution_id() -> None:
    seen: list[Any] = []

    def work(_step: str, _task: str, names: dict[str, Any]) -> Outcome:
        here = names["iter"]
        seen.append([names["city"], here["city"], here["index"], names["loop_index"], names["execution_id"],
                     names["job"]["uuid"]])
        return ok(None)

    workflow = """
    - step: start
      loop: {in: [Oslo, Rome], iterator: city}
      tool: {kind: noop}
    """
    Driver(plan_of(workflow), work).run()
    assert seen == [["Oslo", "Oslo", 0, 0, "x1", "x1"], ["Rome", "Rome", 1, 1, "x1", "x1"]]


def test_outside_a_loop_iter_is_an_empty_scratchpad() -> None:
    seen: list[Any] = []

    def work(_step: str, _task: str, names: dict[str, Any]) -> Outcome:
        seen.append((names["iter"], "loop_index" in names))
        return ok(None)

    Driver(plan_of("- {step: start, tool: {kind: noop}}"), work).run()
    assert seen == [({}, False)]


@pytest.mark.parametrize("spelling", ["start.n", "start.data.n", "start.result.n", "start['n']"])
def test_a_step_reads_the_results_of_all_steps_before_it(spelling: str) -> None:
    """FS §2.3: also over a step in between."""
    workflow = """
    - {step: start, tool: {kind: noop}, next: {arcs: [{step: middle}]}}
    - {step: middle, tool: {kind: noop}, next: {arcs: [{step: last}]}}
    - {step: last, tool: {kind: noop, args: {n: "{{ SPELLING }}", m: "{{ middle.n }}"}}}
    """
    plan = plan_of(workflow.replace("SPELLING", spelling))
    seen: list[Any] = []

    def work(step: str, _task: str, names: dict[str, Any]) -> Outcome:
        if step == "last":
            seen.append(evaluate(plan.steps["last"].tasks[0].config["args"], names))
        return ok({"n": step})

    Driver(plan, work).run()
    assert seen == [{"n": "start", "m": "middle"}]


# -- arcs -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "work", "taken"),
    [
        ("step.done", nothing, True), ("call.done", nothing, True), ("step.exit", nothing, True),
        ("step.failed", nothing, False), ("call.error", nothing, False),
        ("step.failed", lambda *_: failed("boom", "no"), True), ("call.error", lambda *_: failed("boom", "no"), True),
        ("step.done", lambda *_: failed("boom", "no"), False), ("call.done", lambda *_: failed("boom", "no"), False),
    ],
)  # fmt: skip
def test_a_boundary_event_answers_to_its_name_and_its_formal_ones(name: str, work: Any, taken: bool) -> None:
    workflow = """
    - {step: start, tool: {kind: noop}, next: {arcs: [{step: next, when: "{{ event.name == 'NAME' }}"}]}}
    - step: next
      next: {arcs: []}
    """
    run = Driver(plan_of(workflow.replace("NAME", name)), work).run()
    assert run.steps() == (["start", "next"] if taken else ["start"])


def test_an_arc_reads_the_error_and_the_result_of_its_event() -> None:
    workflow = """
    - step: start
      tool: {kind: noop}
      next:
        arcs:
          - step: next
            when: "{{ event.name == 'step.failed' }}"
            args: {kind: "{{ event.error.kind }}", again: "{{ event.payload.error.kind }}"}
          - {step: next, args: {kind: "{{ event.result.n }}", again: "{{ event.payload.result.n }}"}}
    - {step: next, tool: {kind: noop}}
    """
    plan = plan_of(workflow)
    good, bad = Driver(plan, lambda *_: ok({"n": 7})).run(), Driver(plan, lambda *_: failed("boom", "no")).run()
    assert [run.find(ev.TokenCreated)[-1].args for run in (good, bad)] == [
        {"kind": 7, "again": 7}, {"kind": "boom", "again": "boom"},
    ]


def test_a_done_step_that_no_arc_takes_ends_its_token_quietly() -> None:
    workflow = """
    - {step: start, tool: {kind: noop}, next: {arcs: [{step: next, when: "{{ event.result.n == 2 }}"}]}}
    - {step: next, tool: {kind: noop}}
    """
    run = Driver(plan_of(workflow), lambda *_: ok({"n": 1})).run()
    assert (run.steps(), run.state.status) == (["start"], "completed")


def test_the_end_step_needs_no_tool_and_ends_only_its_own_token() -> None:
    workflow = """
    - {step: start, tool: {kind: noop}, next: {spec: {mode: inclusive}, arcs: [{step: end}, {step: other}]}}
    - {step: other, tool: {kind: noop}, next: {arcs: [{step: last}]}}
    - {step: last, tool: {kind: noop}}
    - step: end
    """
    run = Driver(plan_of(workflow)).run()
    assert sorted(run.steps()) == ["end", "last", "other", "start"]
    assert run.types()[-1] == "playbook.processed"


# -- admission --------------------------------------------------------------------------------

GATE = """
- step: start
  tool:
    kind: noop
    spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {level: 3}}}}]}}
  next: {arcs: [{step: gate, args: {n: 4}}]}
- step: gate
  spec:
    policy:
      admit:
        rules:
          - {when: "{{ args.n + ctx.level + workload.more == 10 }}", then: {allow: true}}
          - else: {then: {allow: false}}
  tool: {kind: noop}
"""


@pytest.mark.parametrize(("more", "steps"), [(3, ["start", "gate"]), (4, ["start"])])
def test_admission_reads_args_ctx_and_workload_and_a_denied_token_ends_the_execution_well(
    more: int, steps: list[str]
) -> None:
    run = Driver(plan_of(GATE), payload={"more": more}).run()
    assert (run.steps(), run.state.status) == (steps, "completed")


def test_admission_rules_of_which_none_matches_deny() -> None:
    run = Driver(plan_of(GATE.replace("          - else: {then: {allow: false}}\n", "")), payload={"more": 0}).run()
    assert [(found.step, found.rule) for found in run.find(ev.TokenRejected)] == [("gate", -1)]


def test_no_admission_means_allow() -> None:
    run = Driver(plan_of("- {step: start, tool: {kind: noop}}")).run()
    assert run.steps() == ["start"]


# -- state ------------------------------------------------------------------------------------


def test_ctx_changes_by_patches_in_the_log_and_never_as_a_whole() -> None:
    """DSL2 §3.2: the sum of the patches is the ctx, and each holds only what was written."""
    workflow = """
    - step: start
      tool:
        - {name: a, kind: noop, spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {x: 1}}}}]}}}
        - {name: b, kind: noop, spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {y: 2}}}}]}}}
      next: {arcs: [{step: more}]}
    - step: more
      tool: {kind: noop, spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {x: {$add: 4}}}}}]}}}
    """
    run = Driver(plan_of(workflow)).run()
    assert [found.patch for found in run.find(ev.CtxPatched)] == [{"x": 1}, {"y": 2}, {"x": {"$add": 4}}]
    assert run.state.ctx == {"x": 5, "y": 2}


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_set_iter_stays_in_its_iteration(mode: str) -> None:
    seen: list[Any] = []

    def work(_step: str, task: str, names: dict[str, Any]) -> Outcome:
        if task == "read":
            seen.append(names["iter"].get("mine"))
        return ok(None)

    set_it = 'spec: {policy: {rules: [{when: "{{ iter.index == 0 }}", then: {do: continue, set_iter: {mine: 1}}}]}}'
    workflow = f"""
    - step: start
      loop: {{in: [a, b], iterator: item, spec: {{mode: {mode}}}}}
      tool:
        - {{name: set, kind: noop, {set_it}}}
        - {{name: read, kind: noop}}
    """
    run = Driver(plan_of(workflow), work).run()
    assert (seen, run.state.ctx) == ([1, None], {})


def test_a_workload_over_its_limit_is_refused_before_it_runs() -> None:
    run = Driver(plan_of("- {step: start, tool: {kind: noop}}"), payload={"text": "x" * MAX_WORKLOAD_BYTES})
    assert (run.steps(), run.state.status) == ([], "failed")
    assert run.state.error is not None
    assert run.state.error["kind"] == "limit"


# -- what the compiler takes and refuses ------------------------------------------------------


START = "- {step: start, tool: {kind: noop}}"


@pytest.mark.parametrize(
    ("workflow", "root", "code"),
    [
        pytest.param(START[:-1] + ", next: [{step: start, when: '{{ 1 }}'}]}", "", "DSL301", id="when in a list"),
        pytest.param("- {step: begin, tool: {kind: noop}}", "", "DSL402", id="no start"),
        pytest.param(START, "vars: {a: 1}\n", "DSL306", id="root vars"),
        pytest.param("- {step: start, loop: {in: [1]}, tool: {kind: noop}}", "", "DSL404", id="no iterator"),
        pytest.param(START[:-1] + ", spec: {policy: {do: retry}}}", "", "DSL502", id="control on a step"),
        pytest.param("- {step: start, tool: {kind: noop, args: {t: '{{ keychain.api.token }}'}}}", "", "DSL603",
                     id="keychain in noop"),
        pytest.param("- {step: start, tool: {kind: playbook, path: p, args: {t: '{{ keychain.api.token }}'}}}", "",
                     "DSL603", id="keychain in playbook"),
        pytest.param("- {step: start, tool: {kind: signal, signal: '{{ keychain.api.token }}'}}", "", "DSL603",
                     id="keychain in signal"),
        pytest.param(START[:-1] + ", while: {when: '{{ 1 }}'}}", "", "DSL701", id="sugar"),
        pytest.param("- {step: start, tool: {kind: teleport, shots: 1}}", "", "DSL405", id="unknown kind"),
        pytest.param("- {step: start, tool: {kind: loop}}", "", "DSL405", id="loop as a kind"),
        pytest.param("- {step: start, tool: {kind: sink}}", "", "DSL405", id="sink as a kind"),
        pytest.param(START, "name: other\n", "DSL301", id="root name"),
    ],
)
def test_what_is_rejected_is_rejected_with_its_code(workflow: str, root: str, code: str) -> None:
    strict = code == "DSL701" or root.startswith("name")
    compiled = compile_playbook(playbook(workflow, root=root), kinds=registry.specs(), file="test.yaml", strict=strict)
    assert compiled.plan is None
    assert code in [found.code for found in compiled.diagnostics]
