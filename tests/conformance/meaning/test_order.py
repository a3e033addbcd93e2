"""What comes first: of rules, of the phases of a step, of the layers of a spec."""

from itertools import pairwise
from typing import Any

import pytest

from shared.dsl.compile import compile_playbook
from shared.dsl.templates.evaluate import evaluate
from shared.events import model as ev
from shared.events.outcome import Outcome, failed, ok
from shared.tools import registry
from tests.conformance.stand.lab import playbook
from tests.unit.dsl.lower.support import answer, run
from tests.unit.engine.support import Driver, plan_of

# -- rules ------------------------------------------------------------------------------------

TASKS = """
- step: start
  tool:
    - name: first
      kind: noop
      spec: {policy: {rules: [RULES]}}
    - {name: second, kind: noop}
    - {name: third, kind: noop}
"""
TO_THIRD = "{when: '{{ outcome.result.n == 1 }}', then: {do: jump, to: third}}"
STOP = "{when: '{{ outcome.status == \"ok\" }}', then: {do: break}}"


@pytest.mark.parametrize(("rules", "ran"), [
    ([TO_THIRD, STOP], ["first", "third"]), ([STOP, TO_THIRD], ["first"]),
    ([TO_THIRD, "{else: {then: {do: break}}}"], ["first", "third"]),
])
def test_of_two_rules_that_match_the_first_decides(rules: list[str], ran: list[str]) -> None:
    """PIPE, DSL2 §6.1."""
    seen: list[str] = []

    def work(_step: str, task: str, _names: dict[str, Any]) -> Outcome:
        seen.append(task)
        return ok({"n": 1})

    Driver(plan_of(TASKS.replace("RULES", ", ".join(rules))), work).run()
    assert seen == ran


ALLOW = "{when: '{{ args.n > 0 }}', then: {allow: true}}"
DENY = "{when: '{{ args.n > 1 }}', then: {allow: false}}"


@pytest.mark.parametrize(("rules", "enters"), [([ALLOW, DENY], True), ([DENY, ALLOW], False)])
def test_of_two_admission_rules_that_match_the_first_decides(rules: list[str], enters: bool) -> None:
    """DSL2 §4.2."""
    workflow = f"""
    - {{step: start, tool: {{kind: noop}}, next: {{arcs: [{{step: gate, args: {{n: 2}}}}]}}}}
    - step: gate
      spec: {{policy: {{admit: {{rules: [{", ".join(rules)}]}}}}}}
      tool: {{kind: noop}}
    """
    assert ("gate" in Driver(plan_of(workflow)).run().steps()) == enters


def test_the_first_policy_of_a_retry_that_matches_is_the_only_one() -> None:
    """FX §6.2: also when it is used up."""
    ran = run("""
    - step: start
      tool: {kind: noop}
      retry:
        - {when: "{{ error.kind == 'busy' }}", then: {max_attempts: 2}}
        - {when: "{{ error is defined }}", then: {max_attempts: 5}}
    """, {"start_task": lambda _: failed("busy", "no")})
    assert (len(ran.calls), ran.status) == (2, "failed")


def test_of_two_rules_of_a_case_that_match_the_first_acts() -> None:
    """FX §7.1, FS §8.2."""
    ran = run("""
    - step: start
      tool: {kind: noop, args: {n: 1}}
      case:
        - {when: "{{ response.n == 1 }}", then: {set: {by: first}, next: one}}
        - {when: "{{ response.n > 0 }}", then: {set: {by: second}, next: two}}
      next: rest
    - {step: one, tool: {kind: noop}}
    - {step: two, tool: {kind: noop}}
    - {step: rest, tool: {kind: noop}}
    """)
    assert (ran.ctx["by"], ran.steps) == ("first", ["start", "one"])


def test_a_denied_step_is_never_scheduled() -> None:
    """V10 §5.2.1: rules are evaluated before the step is scheduled."""
    run = Driver(plan_of("""
    - step: start
      spec: {policy: {admit: {rules: [{else: {then: {allow: false}}}]}}}
      tool: {kind: noop}
    """)).run()
    assert (run.find(ev.StepScheduled), run.state.status) == ([], "completed")


# -- the phases of a step ---------------------------------------------------------------------


def test_inputs_loop_tools_result_vars_and_routing_come_in_this_order() -> None:
    """FS §3.4: each phase reads what the one before it left."""
    ran = run("""
    - step: start
      args: {numbers: "{{ workload.all }}", factor: 10}
      loop: {in: "{{ numbers }}", iterator: n}
      tool: {kind: noop, args: {product: "{{ n * factor }}"}}
      next: [{step: after, args: {products: "{{ start.results | map(attribute='product') | list }}"}}]
    - step: after
      tool: {kind: noop, args: {sum: "{{ args.products | sum }}"}}
      vars: {total: "{{ result.sum }}"}
      case:
        - when: "{{ vars.total == 50 and result.sum == 50 }}"
          then: {next: [{step: last, args: {n: "{{ vars.total }}"}}]}
      next: wrong
    - {step: last, tool: {kind: noop, args: {n: "{{ args.n }}"}}}
    - {step: wrong, tool: {kind: noop}}
    """, all=[2, 3])
    assert ran.args("start_task") == [{"product": 20}, {"product": 30}]
    assert (ran.steps, ran.args("last_task")) == (["start", "after", "last"], [{"n": 50}])


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_every_phase_of_a_step_leaves_an_event(mode: str) -> None:
    """FS §3.4, the events of a plain step and of a loop: inputs, loop, tools, result, vars, routing."""
    run = Driver(plan_of(f"""
    - step: start
      loop: {{in: [1, 2], iterator: n, spec: {{mode: {mode}}}}}
      tool:
        kind: noop
        spec: {{policy: {{rules: [{{else: {{then: {{do: continue, set_ctx: {{sum: {{$add: 1}}}}}}}}}}]}}}}
      next: {{arcs: [{{step: after, args: {{n: 1}}}}]}}
    - {{step: after, tool: {{kind: noop}}}}
    """)).run()
    kinds = [type(event) for record in run.log for event in record.events]
    first = {kind: kinds.index(kind) for kind in reversed(kinds)}
    phases = [ev.StepScheduled, ev.LoopStarted, ev.IterationStarted, ev.TaskDone, ev.IterationDone, ev.LoopDone,
              ev.CtxPatched, ev.NextSelected]
    assert [first[kind] for kind in phases] == sorted(first[kind] for kind in phases)
    assert (kinds.count(ev.TaskDone), kinds.count(ev.CtxPatched), kinds.count(ev.NextSelected)) == (3, 2, 2)
    assert run.find(ev.StepScheduled)[-1].args == {"n": 1}


def test_vars_are_taken_after_a_success_alone() -> None:
    """FS §11.2."""
    workflow = """
    - {step: start, tool: {kind: noop}, vars: {n: "{{ result.n }}"}, next: after}
    - {step: after, tool: {kind: noop, args: {n: "{{ vars.n }}"}}}
    """
    good = run(workflow, {"start_task": answer({"n": 4})})
    bad = run(workflow, {"start_task": lambda _: failed("boom", "no")})
    assert (good.args("after_task"), good.ctx) == ([{"n": 4}], {"n": 4})
    assert (bad.steps, bad.ctx, bad.error["kind"]) == (["start"], {}, "boom")


def test_a_sink_stores_the_result_before_the_next_step_begins() -> None:
    """FS §10.1."""
    ran = run("""
    - step: start
      tool: {kind: noop, args: {n: 7}}
      sink: {tool: {kind: postgres, table: t}, args: {kept: "{{ result.n | default(0) }}"}}
      next: after
    - {step: after, tool: {kind: noop}}
    """)
    assert [name for name, _ in ran.calls] == ["start_task", "start_sink", "after_task"]
    assert ran.args("start_sink") == [{"kept": 7}]


def test_a_sink_is_in_the_log_as_what_it_did() -> None:
    """FS §10.1, §13.2: its call and its outcome; of one that was skipped there is none."""
    workflow = """
    - step: start
      tool: {kind: noop, args: {n: 7}}
      sink: {tool: {kind: postgres, table: t}, args: {kept: 1}, when: "{{ result.n == WANTED }}"}
    """
    kept, skipped = (run(workflow.replace("WANTED", n)).driver.find(ev.TaskDone) for n in ("7", "8"))
    assert [(each.task, each.outcome.status) for each in kept if "sink" in each.task][-1] == ("start_sink", "ok")
    assert "start_sink" not in [each.task for each in skipped]


# -- layers -----------------------------------------------------------------------------------

LAYERS = ("executor", "step", "loop", "task")
LAYERED = """
- step: start
  spec: {STEP}
  loop: {in: [1], iterator: n, spec: {LOOP}}
  tool: {kind: http, url: "http://x", spec: {TASK}}
"""


def layered(written: dict[str, str]) -> dict[str, Any]:
    workflow = LAYERED
    for layer in LAYERS[1:]:
        workflow = workflow.replace(layer.upper(), written.get(layer, ""))
    root = f"executor: {{kind: distributed, spec: {{{written.get('executor', '')}}}}}\n"
    compiled = compile_playbook(playbook(workflow, root=root), kinds=registry.specs())
    assert compiled.plan is not None, [str(each) for each in compiled.diagnostics]
    return compiled.plan.steps["start"].tasks[0].spec


@pytest.mark.parametrize("layer", LAYERS)
def test_a_spec_of_every_layer_reaches_the_task(layer: str) -> None:
    """V10 §3."""
    assert layered({layer: "timeout: {read: 7}"})["timeout"]["read"] == 7


@pytest.mark.parametrize(("outer", "inner"), list(pairwise(LAYERS)))
def test_the_inner_spec_wins_and_keeps_what_it_does_not_name(outer: str, inner: str) -> None:
    """V10 §3.1."""
    found = layered({outer: "timeout: {read: 7, total: 9}", inner: "timeout: {read: 8}"})
    assert (found["timeout"]["read"], found["timeout"]["total"]) == (8, 9)


@pytest.mark.parametrize(("scope", "written"), [
    ("executor", "policy: {do: retry}"), ("step", "policy: {rules: []}"), ("loop", "policy: {jump: x}"),
    ("task", "policy: {admit: {rules: []}, rules: [{else: {then: {do: continue}}}]}"),
    ("task", "policy: {lifecycle: {timeout_s: 1}, rules: [{else: {then: {do: continue}}}]}"),
    ("step", "policy: {exec: local}"), ("loop", "policy: {failure: {mode: best_effort}}"),
])
def test_a_policy_of_another_scope_is_refused(scope: str, written: str) -> None:
    """V10 §3.2, §5: which keys a policy has depends on where it is."""
    with pytest.raises(AssertionError, match=r"DSL502|DSL307"):
        layered({scope: written})


def test_what_is_written_to_ctx_leaves_the_input_as_it_was() -> None:
    """V10 §6.1, DSL2 §3.1: the workload of an execution does not change."""
    workflow = """
    - step: start
      tool:
        kind: noop
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {n: 2, workload: {n: 3}}}}}]}}
      next: {arcs: [{step: after}]}
    - {step: after, tool: {kind: noop, args: {seen: ["{{ workload.n }}", "{{ n }}", "{{ ctx.workload.n }}"]}}}
    """
    plan, seen = plan_of(workflow, "{n: 1}"), []

    def work(step: str, _task: str, names: dict[str, Any]) -> Outcome:
        if step == "after":
            seen.append(evaluate(plan.steps[step].tasks[0].config["args"], names)["seen"])
        return ok(None)

    driver = Driver(plan, work).run()
    assert (seen, driver.state.workload) == ([[1, 2, 3]], {"n": 1})
