"""What ends by a bound of time or size says by which: the key of the playbook, or that of ctx."""

from typing import Any

import pytest
from msgspec.structs import replace

from shared.dsl.compile import compile_playbook
from shared.dsl.model.edition import plan_name
from shared.dsl.model.plan import Plan
from shared.engine.values.ctx_patch import MAX_CTX_BYTES
from shared.engine.values.stored_values import unwritable
from shared.events import model as ev
from shared.events.outcome import Outcome, Result, ok
from shared.tools import registry
from tests.unit.engine.support import HEAD, Driver, plan_of


def timed(execution: int, step: int | None) -> Plan:
    lifecycle = f"spec: {{policy: {{lifecycle: {{deadline_s: {step}}}}}}}, " if step else ""
    source = f"""{HEAD}
executor: {{spec: {{policy: {{defaults: {{timeouts: {{execution_s: {execution}}}}}}}}}}}
workflow: [{{step: start, {lifecycle}tool: {{kind: noop}}}}]
"""
    found = compile_playbook(source, kinds=registry.specs()).plan
    assert found is not None
    return found


@pytest.mark.parametrize(("execution", "step", "by"), [
    (60, None, "execution_s"), (60, 5, "deadline_s"), (60, 90, "execution_s"),
])
def test_a_run_says_which_key_its_deadline_comes_from(execution: int, step: int | None, by: str) -> None:
    (scheduled,) = Driver(timed(execution, step)).run().find(ev.StepScheduled)
    assert scheduled.deadline
    assert scheduled.due_by == by


@pytest.mark.parametrize("edition", [1, 2, 3])
def test_earlier_editions_do_not_say_it(edition: int) -> None:
    plan = timed(60, 5)
    former = replace(plan, digest=plan_name(plan.digest.partition("@")[0], edition))
    (scheduled,) = Driver(former).run().find(ev.StepScheduled)
    assert (bool(scheduled.deadline), scheduled.due_by) == (True, "")


SET = """
- step: start
  tool:
    kind: noop
    spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {small: 1, large: "{{ outcome.result }}"}}}}]}}
"""


def wrote(plan: Plan) -> dict[str, Any]:
    def work(_step: str, _task: str, _names: dict[str, Any]) -> Outcome:
        return ok("x" * (MAX_CTX_BYTES + 1))

    return Driver(plan, work).run().state.error or {}


def test_a_ctx_that_is_too_large_names_the_key_its_size_and_the_limit() -> None:
    error = wrote(plan_of(SET))
    assert (error["kind"], error["step"]) == ("limit", "start")
    for said in ("ctx.large", str(MAX_CTX_BYTES + 3), str(MAX_CTX_BYTES)):
        assert said in error["message"]
    plan = plan_of(SET)
    former = wrote(replace(plan, digest=plan_name(plan.digest.partition("@")[0], 3)))
    assert former["message"].startswith("ctx would grow to ")


def test_what_iterations_write_to_ctx_is_named_too() -> None:
    plan = plan_of("""
    - step: start
      loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}
      tool:
        kind: noop
        spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {all: {$append: "{{ outcome.result }}"}}}}}]}}
    """)
    error = Driver(plan, lambda _step, _task, _names: ok("x" * 100_000)).run().state.error or {}
    assert "ctx.all, 3000" in error["message"]
    assert str(MAX_CTX_BYTES) in error["message"]


BIG = "x" * 1000


@pytest.mark.parametrize(("events", "said"), [
    ([ev.TaskDone("t", 1, ok(1), "continue", set_ctx={"a": 1, "big": BIG})], "ctx.big of 1002 bytes is over"),
    ([ev.TaskDone("t", 1, ok(1), "continue", set_iter={"big": BIG}, set_ctx={"a": 1})], "iter.big of 1002 bytes"),
    ([ev.StepDone(Result(1), ({"a": "x" * 500}, {"a": "y" * 500}))], "ctx.a of 1004 bytes"),
    ([ev.StepStarted()], "a record of more than "),
])
def test_what_does_not_fit_into_a_record_is_named(events: list[ev.Event], said: str) -> None:
    assert said in unwritable(events)
