"""The routing decider: arcs, admission, joins, ctx, completion and failure."""

from typing import Any

import pytest
from msgspec.structs import replace

from shared.dsl.model.edition import plan_name, source_of
from shared.engine.routing import decide as routing
from shared.engine.routing.state import Execution, evolve
from shared.events import model as ev
from shared.events.fields import Parent
from shared.events.outcome import Outcome, failed, ok
from shared.events.record import Lease, Record
from shared.events.request import Request
from shared.events.stamp import stamp
from tests.unit.engine.support import NOW, Driver, plan_of

CHAIN = """
- step: start
  tool: {kind: noop}
  next: {arcs: [{step: middle}]}
- step: middle
  tool: {kind: noop}
  next: {arcs: [{step: end}]}
- step: end
"""


def test_a_chain_runs_its_steps_in_order_and_completes() -> None:
    run = Driver(plan_of(CHAIN)).run()
    assert run.steps() == ["start", "middle", "end"]
    assert run.state.status == "completed"
    assert run.types()[:6] == [
        "playbook.execution.requested", "playbook.request.evaluated", "playbook.started", "workflow.started",
        "token.created", "step.scheduled",
    ]
    assert run.types()[-2:] == ["workflow.finished", "playbook.processed"]


def test_deciding_again_yields_nothing() -> None:
    run = Driver(plan_of(CHAIN))
    while run.queue:
        assert routing.decide(run.plan, run.state, NOW) == []
        command = run.queue.pop()
        run.report(command, run.perform(command))
        run.control()
    assert routing.decide(run.plan, run.state, NOW) == []


def test_the_result_is_that_of_the_last_step_with_a_tool() -> None:
    run = Driver(plan_of(CHAIN), lambda step, *_: ok(step)).run()
    assert run.state.result is not None
    assert run.state.result.value == "middle"


CHOICE = """
- step: start
  tool: {kind: noop}
  next:
    spec: {mode: MODE}
    arcs:
      - {step: big, when: "{{ start.size > 10 }}", args: {size: "{{ start.size }}"}}
      - {step: any, when: "{{ event.name == 'step.done' }}"}
      - {step: rest}
- {step: big, tool: {kind: noop}}
- {step: any, tool: {kind: noop}}
- {step: rest, tool: {kind: noop}}
"""


@pytest.mark.parametrize(
    ("mode", "size", "steps"),
    [
        ("exclusive", 11, ["start", "big"]),
        ("exclusive", 1, ["start", "any"]),
        ("inclusive", 11, ["start", "big", "any", "rest"]),
        ("inclusive", 1, ["start", "any", "rest"]),
    ],
)
def test_exclusive_takes_the_first_matching_arc_and_inclusive_all(mode: str, size: int, steps: list[str]) -> None:
    run = Driver(plan_of(CHOICE.replace("MODE", mode)), lambda *_: ok({"size": size})).run()
    assert run.steps() == steps


def test_arc_args_reach_the_next_step_with_their_types() -> None:
    seen: dict[str, Any] = {}

    def work(step: str, _task: str, names: dict[str, Any]) -> Outcome:
        seen[step] = dict(names["args"])
        return ok({"size": 42})

    Driver(plan_of(CHOICE.replace("MODE", "exclusive")), work).run()
    assert seen["big"] == {"size": 42}


HANDLED = """
- step: start
  tool: {kind: noop}
  next:
    arcs:
      - {step: after}
      - {step: rescue, when: "{{ event.name == 'step.failed' }}", args: {why: "{{ event.error.kind }}"}}
- {step: after, tool: {kind: noop}}
- {step: rescue, tool: {kind: noop}}
"""


def test_a_failed_step_takes_the_arc_that_asks_for_it_and_not_an_arc_without_when() -> None:
    run = Driver(plan_of(HANDLED), lambda step, *_: failed("boom", "no") if step == "start" else ok()).run()
    assert run.steps() == ["start", "rescue"]
    assert run.state.status == "completed"
    assert run.find(ev.TokenCreated)[-1].args == {"why": "boom"}


def test_a_failed_step_that_no_arc_takes_fails_the_execution_with_its_error() -> None:
    run = Driver(plan_of(CHAIN), lambda step, *_: failed("boom", "no") if step == "middle" else ok()).run()
    assert run.state.status == "failed"
    assert run.state.error is not None
    assert (run.state.error["kind"], run.state.error["step"]) == ("boom", "middle")


def test_when_the_execution_fails_other_live_runs_are_cancelled_and_their_reports_ignored() -> None:
    workflow = """
    - step: start
      tool: {kind: noop}
      next: {spec: {mode: inclusive}, arcs: [{step: bad}, {step: slow}]}
    - {step: bad, tool: {kind: noop}}
    - {step: slow, tool: {kind: noop}}
    """
    run = Driver(plan_of(workflow), lambda step, *_: failed("boom", "no") if step == "bad" else ok()).run()
    assert run.state.status == "failed"
    assert [e.step for e in run.find(ev.StepCancelled)] == ["slow"]
    assert run.types().count("playbook.processed") == 1


ADMIT = """
- step: start
  tool: {kind: noop}
  next: {spec: {mode: inclusive}, arcs: [{step: gated, args: {n: 1}}, {step: other}]}
- step: gated
  spec:
    policy:
      admit:
        rules:
          - {when: "{{ args.n > 5 }}", then: {allow: true}}
          - else: {then: {allow: false}}
  tool: {kind: noop}
- {step: other, tool: {kind: noop}}
"""


def test_a_denied_token_is_consumed_with_the_rule_that_decided_and_the_rest_goes_on() -> None:
    run = Driver(plan_of(ADMIT)).run()
    assert run.steps() == ["start", "other"]
    assert [(e.step, e.rule) for e in run.find(ev.TokenRejected)] == [("gated", 1)]
    assert run.state.status == "completed"


DIAMOND = """
- step: start
  tool: {kind: noop}
  next:
    spec: {mode: inclusive}
    arcs: [{step: left, args: {l: 1}}, {step: right, args: {r: 2}}]
- {step: left, tool: {kind: noop}, next: {arcs: [{step: join, args: {l: 1}}]}}
- {step: right, tool: {kind: noop}, next: {arcs: [{step: join, args: {r: 2}}]}}
- {step: join, tool: {kind: noop}}
"""


@pytest.mark.parametrize("first", [0, -1])
def test_tokens_that_meet_join_and_the_step_runs_once_with_all_args(first: int) -> None:
    run = Driver(plan_of(DIAMOND)).run(choose=lambda _: first)
    assert run.steps().count("join") == 1
    assert run.find(ev.StepScheduled)[-1].args == {"l": 1, "r": 2}
    assert len(run.find(ev.TokenJoined)) == 1
    assert run.state.status == "completed"


def test_a_back_edge_runs_the_step_again_until_its_arc_no_longer_matches() -> None:
    workflow = """
    - step: start
      tool:
        kind: noop
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {n: {$add: 1}}}}}]}}
      next: {arcs: [{step: start, when: "{{ ctx.n < 3 }}"}]}
    """
    run = Driver(plan_of(workflow)).run()
    assert run.steps() == ["start"] * 3
    assert run.state.ctx == {"n": 3}
    assert [e.run_id for e in run.find(ev.StepScheduled)] == ["start:1", "start:2", "start:3"]


def test_a_cycle_of_steps_without_tools_fails_instead_of_spinning() -> None:
    workflow = """
    - {step: start, next: {arcs: [{step: again}]}}
    - {step: again, next: {arcs: [{step: start}]}}
    """
    run = Driver(plan_of(workflow)).run()
    assert run.state.status == "failed"
    assert run.state.error is not None
    assert run.state.error["kind"] == "limit"


def test_an_expression_that_fails_in_an_arc_fails_the_execution_and_names_the_step() -> None:
    workflow = """
    - {step: start, tool: {kind: noop}, next: {arcs: [{step: end, when: "{{ workload > 1 }}"}]}}
    - step: end
    """
    run = Driver(plan_of(workflow)).run()
    assert run.state.error is not None
    assert run.state.error["kind"] == "template"
    assert "start" in run.state.error["message"]


def test_the_payload_is_merged_deep_over_the_workload_and_never_rendered() -> None:
    plan = plan_of("- {step: start, tool: {kind: noop}}", '{a: {b: 1, c: 2}, url: "{{ a.b }}/x"}')
    run = Driver(plan, payload={"a": {"b": 5}, "text": "{{ 1 + 1 }}"})
    assert run.state.workload == {"a": {"b": 5, "c": 2}, "url": "5/x", "text": "{{ 1 + 1 }}"}


def workload_of(workload: str, payload: dict[str, object] | None = None) -> dict[str, object]:
    return dict(Driver(plan_of("- {step: start, tool: {kind: noop}}", workload), payload=payload or {}).state.workload)


def test_a_template_of_the_workload_sees_what_the_others_came_to() -> None:
    found = workload_of('{c: "{{ b }}!", b: "{{ workload.a }}-{{ execution_id }}", a: "{{ 1 + 1 }}"}')
    assert (found["a"], found["b"], found["c"]) == (2, "2-x1", "2-x1!")
    assert list(found) == ["c", "b", "a"]


def test_a_default_that_reads_its_own_key_asks_the_payload() -> None:
    books = '{user: "{{ user | default(\'nobody\') }}", mail: "{{ user }}@{{ host }}", host: "{{ host or \'x\' }}"}'
    assert workload_of(books) == {"user": "nobody", "mail": "nobody@x", "host": "x"}
    assert workload_of(books, {"user": "ann"}) == {"user": "ann", "mail": "ann@x", "host": "x"}


def test_a_default_that_the_payload_replaces_is_not_rendered() -> None:
    assert workload_of('{user: "{{ user }}", role: {name: "{{ user }}", n: 1}}', {"user": "ann", "role": {"n": 2}}) == {
        "user": "ann", "role": {"name": "ann", "n": 2}}


def test_within_a_key_a_template_sees_what_is_plain_there() -> None:
    assert workload_of('{a: {base: 3, url: "x/{{ a.base }}"}, b: "{{ c or 1 }}", c: "{{ b or 2 }}"}') == {
        "a": {"base": 3, "url": "x/3"}, "b": 2, "c": 2}


def test_an_unknown_playbook_is_a_failed_execution_that_says_why() -> None:
    events = routing.start("x1", Request("no/such"), "", "no playbook 'no/such' is registered", NOW)
    state = evolve(Execution("x1"), Record("x1", "router", 1, stamp(NOW), tuple(events)), 1)
    assert state.status == "failed"
    assert state.error == {"kind": "request", "message": "no playbook 'no/such' is registered"}


@pytest.mark.parametrize(("edition", "kind"), [(3, "template"), (4, "boom")])
def test_an_arc_that_cannot_be_evaluated_does_not_hide_why_the_step_failed(edition: int, kind: str) -> None:
    workflow = """
    - step: start
      tool: {kind: noop}
      next: {arcs: [{step: end, when: "{{ event.name == 'step.failed' and event.error.message.nope() }}"}]}
    - step: end
    """
    plan = plan_of(workflow)
    plan = replace(plan, digest=plan_name(source_of(plan.digest), edition))
    error = Driver(plan, lambda _step, _task, _names: failed("boom", "orig")).run().state.error or {}
    assert (error["kind"], error["step"]) == (kind, "start")
    assert "nope" in str(error["next_error"] if edition > 3 else error["message"])


def test_a_playbook_without_the_step_whose_result_is_wanted_is_refused() -> None:
    plan = plan_of("- {step: start, tool: {kind: noop}}")
    found = {}
    for wanted, edition in (("strt", 4), ("start", 4), ("", 4), ("strt", 3)):
        parent = Parent("p", "r:1", "w", returns=wanted)
        events = routing.start("x1", Request(plan.path, parent=parent), "",
                               replace(plan, digest=plan_name(source_of(plan.digest), edition)), NOW)
        state = evolve(Execution("x1"), Record("x1", "router", 1, stamp(NOW), tuple(events)), 1)
        found[wanted, edition] = (state.error or {}).get("message")
    assert found == {("strt", 4): f"return_step: {plan.path} has no step 'strt'", ("start", 4): None, ("", 4): None,
                     ("strt", 3): None}


def test_a_report_of_a_lower_epoch_is_ignored_once_a_higher_one_holds_the_run() -> None:
    run = Driver(plan_of(CHAIN))
    command = run.queue.pop()
    run.report(command, [ev.StepStarted()], epoch=(2, 1))
    run.report(command, run.perform(command), epoch=(1, 1))
    assert routing.decide(run.plan, run.state, NOW) == []
    run.report(command, run.perform(command), epoch=(2, 1))
    assert routing.decide(run.plan, run.state, NOW) != []


def test_a_second_end_of_the_same_run_changes_nothing() -> None:
    run = Driver(plan_of(CHAIN))
    command = run.queue.pop()
    run.report(command, run.perform(command))
    run.control()
    before = run.state
    lease = Lease(command.run_id, command.step, (9, 9), "w2")
    late = Record("x1", "worker", 1, stamp(NOW), (ev.StepFailed({"kind": "late"}),), lease=lease)
    after = evolve(before, late, run.seq + 1)
    assert (after.runs, after.tokens, after.status) == (before.runs, before.tokens, before.status)


def test_a_ctx_over_its_limit_fails_the_step() -> None:
    workflow = """
    - step: start
      tool:
        kind: noop
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {big: "{{ outcome.result }}"}}}}]}}
    """
    run = Driver(plan_of(workflow), lambda *_: ok("x" * 300_000)).run()
    assert run.state.error is not None
    assert run.state.error["kind"] == "limit"


def test_args_that_do_not_fit_into_one_record_fail_the_execution_and_say_what_to_do() -> None:
    workflow = """
    - step: start
      tool: {kind: noop}
      next: {arcs: [{step: after, args: {all: "{{ start }}"}}]}
    - {step: after, tool: {kind: noop}}
    """
    run = Driver(plan_of(workflow), lambda *_: ok("x" * 400_000)).run()
    assert run.state.status == "failed"
    assert run.state.error is not None
    assert run.state.error["kind"] == "limit"
    assert "name the step's result" in run.state.error["message"]
    assert not run.find(ev.StepScheduled)[1:]
