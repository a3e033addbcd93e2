"""Where tokens meet: who enters, who waits, who ends there."""

from textwrap import indent
from typing import Any

import pytest
from msgspec.structs import replace

from shared.engine.routing import decide as routing
from shared.events import model as ev
from shared.events.outcome import Outcome, failed, ok
from tests.unit.engine.support import NOW, Driver, Work, nothing, plan_of

FAN = """
- step: start
  next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: c}]}
- {step: a, tool: {kind: noop}, next: {arcs: [{step: meet, args: {a: 1, last: a}}]}}
- {step: b, tool: {kind: noop}, next: {arcs: [{step: meet, args: {b: 2, last: b}}]}}
- {step: c, tool: {kind: noop}, next: {arcs: [{step: meet, args: {c: 3, last: c}}]}}
- step: meet
  spec: {policy: {admit: {join: %s}}}
  tool: {kind: noop}
  next: {arcs: [{step: after}]}
- {step: after, tool: {kind: noop}}
"""


def played(workflow: str, order: str = "", work: Work = nothing) -> Driver:
    """Steps named in `order` go first, in that order, as soon as they are there."""
    driver = Driver(plan_of(workflow), work)
    driver.control()
    wanted = order.split()
    for _ in range(100):
        if not driver.queue:
            break
        names = [command.step for command in driver.queue]
        at = names.index(wanted.pop(0)) if wanted and wanted[0] in names else 0
        command = driver.queue.pop(at)
        driver.report(command, driver.perform(command))
        driver.control()
        assert routing.decide(driver.plan, driver.state, NOW + driver.seq) == []
    assert driver.violations() == []
    return driver


def args_of(driver: Driver, step: str) -> list[dict[str, object]]:
    return [event.args for event in driver.find(ev.StepScheduled) if event.step == step]


def test_each_token_enters_for_itself_and_at_once() -> None:
    run = played(FAN % "each", "b meet a")
    assert args_of(run, "meet") == [{"b": 2, "last": "b"}, {"a": 1, "last": "a"}, {"c": 3, "last": "c"}]
    assert run.steps()[:6] == ["start", "a", "b", "c", "meet", "meet"]
    assert run.steps().count("after") == 1  # a join of all
    assert not run.find(ev.TokenJoined)[1:]


def test_any_lets_the_first_in_and_absorbs_the_rest() -> None:
    run = played(FAN % "any", "b meet after a")
    assert args_of(run, "meet") == [{"b": 2, "last": "b"}]
    assert [(e.token_id, e.step, e.run_id) for e in run.find(ev.TokenAbsorbed)] == [
        ("t7", "meet", "meet:1"), ("t8", "meet", "meet:1")]
    assert run.state.status == "completed"


def test_a_number_enters_once_so_many_are_there_merged_by_arrival() -> None:
    run = played(FAN % 2, "c a")
    assert args_of(run, "meet") == [{"c": 3, "a": 1, "last": "a"}]
    assert [e.tokens for e in run.find(ev.TokenJoined)] == [("t5", "t6")]
    assert [e.token_id for e in run.find(ev.TokenAbsorbed)] == ["t7"]


def test_tokens_beyond_the_number_that_come_in_one_decision_are_absorbed() -> None:
    workflow = """
    - step: start
      next: {spec: {mode: inclusive}, arcs: [{step: meet, args: {x: 1}}, {step: meet, args: {y: 2}}, {step: meet}]}
    - {step: meet, spec: {policy: {admit: {join: 2}}}, tool: {kind: noop}}
    """
    run = played(workflow)
    assert args_of(run, "meet") == [{"x": 1, "y": 2}]
    assert len(run.find(ev.TokenAbsorbed)) == 1


def test_too_few_tokens_for_a_number_are_rejected_when_no_other_can_come() -> None:
    def work(step: str, _task: str, _names: object) -> Outcome:
        return failed("test", "c") if step == "c" else ok(step)

    fan = FAN.replace("{step: meet, args: {c: 3, last: c}}", "{step: after, when: '{{ event.error }}'}")
    run = played(fan % 3, "a b", work)
    reason = "2 of 3 tokens came, and no other can"
    assert [(e.token_id, e.step, e.rule, e.reason) for e in run.find(ev.TokenRejected)] == [
        ("t5", "meet", -1, reason), ("t6", "meet", -1, reason)]
    assert run.steps() == ["start", "a", "b", "c", "after"]
    assert run.state.status == "completed"


BACK = """
- step: start
  next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
- {step: a, tool: {kind: noop}, next: {arcs: [{step: meet}]}}
- {step: b, tool: {kind: noop}, next: {arcs: [{step: meet}]}}
- step: meet
  spec: {policy: {admit: {join: %s}}}
  tool:
    kind: noop
    spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {n: {$add: 1}}}}}]}}
  next: {spec: {mode: inclusive}, arcs: [
    {step: x, when: "{{ ctx.n < 3 }}"}, {step: y, when: "{{ ctx.n < 3 }}"}, {step: end, when: "{{ ctx.n >= 3 }}"}]}
- {step: x, spec: {policy: {admit: {join: each}}}, tool: {kind: noop}, next: {arcs: [{step: meet}]}}
- {step: y, spec: {policy: {admit: {join: each}}}, tool: {kind: noop}, next: {arcs: [{step: meet}]}}
- step: end
"""


@pytest.mark.parametrize("order", ["a meet b x meet y", "b meet x y meet a x y", "a b meet y x"])
def test_what_descends_from_the_latest_run_is_the_next_wave_of_any(order: str) -> None:
    """Wave 1: a, b. Waves 2 and 3: x, y. The rest of a wave is absorbed however late it comes."""
    run = played(BACK % "any", order)
    assert [(e.run_id, e.wave) for e in run.find(ev.StepScheduled) if e.step == "meet"] == [
        ("meet:1", 1), ("meet:2", 2), ("meet:3", 3)]
    assert len(run.find(ev.TokenAbsorbed)) == 3


@pytest.mark.parametrize("order", ["a b meet x y meet", "b a meet y x"])
def test_a_number_counts_each_wave_anew(order: str) -> None:
    run = played(BACK % 2, order)
    assert [(e.run_id, len(e.tokens)) for e in run.find(ev.StepScheduled) if e.step == "meet"] == [
        ("meet:1", 2), ("meet:2", 2), ("meet:3", 2)]
    assert not run.find(ev.TokenAbsorbed)


def test_an_admission_that_refuses_the_first_leaves_the_wave_open_for_the_second() -> None:
    fan = FAN.replace("{join: %s}", "{join: any, rules: [{when: \"{{ args.last != 'a' }}\", then: {allow: true}}]}")
    run = played(fan, "a b c")
    assert [e.token_id for e in run.find(ev.TokenRejected)] == ["t5"]
    assert args_of(run, "meet") == [{"b": 2, "last": "b"}]


def test_joins_that_wait_for_each_other_end_their_tokens() -> None:
    workflow = """
    - step: start
      next: {spec: {mode: inclusive}, arcs: [{step: one}, {step: two}]}
    - {step: one, spec: {policy: {admit: {join: 2}}}, tool: {kind: noop}, next: {arcs: [{step: two}]}}
    - {step: two, spec: {policy: {admit: {join: 2}}}, tool: {kind: noop}, next: {arcs: [{step: one}]}}
    """
    run = played(workflow)
    assert [e.step for e in run.find(ev.TokenRejected)] == ["one", "two"]
    assert run.state.status == "completed"


def test_a_join_of_all_goes_on_before_a_number_that_waits_for_it_is_given_up() -> None:
    workflow = """
    - step: start
      next: {spec: {mode: inclusive}, arcs: [{step: two}, {step: one}]}
    - {step: one, tool: {kind: noop}, next: {arcs: [{step: two}]}}
    - step: two
      spec: {policy: {admit: {join: 2}}}
      tool: {kind: noop}
      next: {arcs: [{step: one, when: "{{ false }}"}]}
    """
    run = played(workflow)
    assert run.steps() == ["start", "one", "two"]


def test_many_tokens_that_enter_one_by_one_are_not_taken_for_a_cycle() -> None:
    targets = ", ".join(["{step: meet}"] * 200)
    arcs = "\n".join(f"- {{step: f{n}, next: {{spec: {{mode: inclusive}}, arcs: [{targets}]}}}}" for n in range(6))
    workflow = f"""
- step: start
  next: {{spec: {{mode: inclusive}}, arcs: [{", ".join(f"{{step: f{n}}}" for n in range(6))}]}}
{indent(arcs, "")}
- {{step: meet, spec: {{policy: {{admit: {{join: each}}}}}}, tool: {{kind: noop}}}}
"""
    driver = Driver(plan_of(workflow))
    assert driver.state.status == "running"
    assert driver.state.counts["meet"] == 1200


def told_otherwise(run: Driver, kind: type[Any], which: int, **fields: Any) -> set[str]:
    """The rules that a log with one event told otherwise breaks."""
    events = [(r, e) for r, record in enumerate(run.log) for e, event in enumerate(record.events)
              if isinstance(event, kind)]
    at, place = events[which]
    changed = list(run.log[at].events)
    changed[place] = replace(changed[place], **fields)
    run.log[at] = replace(run.log[at], events=tuple(changed))
    return {violation.rule for violation in run.violations()}


def test_the_checker_tells_a_token_that_is_absorbed_although_its_wave_is_open() -> None:
    run = played(BACK % "any", "a meet b x meet y")
    late = run.find(ev.TokenAbsorbed)[0]
    third = next(e for e in run.find(ev.StepScheduled) if e.run_id == "meet:3")
    assert told_otherwise(run, ev.TokenAbsorbed, 0, token_id=third.tokens[0]) >= {"decision", "token"}
    assert late.token_id != third.tokens[0]


def test_the_checker_tells_a_wave_that_enters_twice() -> None:
    run = played(BACK % "any", "a meet b x meet y")
    runs = [e.run_id for e in run.find(ev.StepScheduled)]
    late = run.find(ev.TokenAbsorbed)[-1]
    assert told_otherwise(run, ev.StepScheduled, runs.index("meet:3"), tokens=(late.token_id,)) >= {"decision", "token"}
