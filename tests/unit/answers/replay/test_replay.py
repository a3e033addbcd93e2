"""Replays: against its own source a history is identical; against an edited one the first difference is told."""

from collections.abc import Iterator
from typing import Any

import pytest

from shared.answers.rehearsal.order import Seeded
from shared.answers.rehearsal.rehearse import rehearse
from shared.answers.rehearsal.setting import Conditions, Faults, Opening
from shared.answers.rehearsal.types import Answered, Need, Rehearsed, Took, Wish
from shared.answers.replay.recording import Recording, digest_of
from shared.answers.replay.replay import Replayed, replay
from shared.answers.replay.shape import sentence, shape
from shared.dsl.model.plan import Plan
from shared.events import model as ev
from shared.events.outcome import failed, ok
from shared.events.record import Record
from shared.tools import registry
from shared.tools.testing.effectless import natural
from tests.sim import checks
from tests.sim.books.playbooks import BOOKS
from tests.sim.run import live, live_in_peace, quiet
from tests.sim.world import World
from tests.unit.engine.support import plan_of

KINDS = registry.specs()


def recorded_in(world: World) -> Iterator[tuple[str, list[tuple[int, Record]], dict[str, Any]]]:
    values = checks.read_values(world)
    for execution_id, entries in checks.read_histories(world).items():
        yield execution_id, entries, values


def check_itself(world: World) -> int:
    """How many histories of the world were replayed, all of them identical."""
    count = 0
    for execution_id, entries, values in recorded_in(world):
        plan = checks.PLANS[digest_of(entries)]
        found = replay(Recording(execution_id, entries, plan), plan, KINDS, natural, values)
        assert (found.verdict, found.status) == ("identical", found.recorded), (plan.path, shape(found))
        assert not found.notes
        count += 1
    return count


def test_histories_of_services_are_identical_to_themselves() -> None:
    assert check_itself(live_in_peace(*[book.name for book in BOOKS])) > len(BOOKS)


@pytest.mark.parametrize("seed", range(12))
def test_histories_full_of_faults_are_identical_to_themselves(seed: int) -> None:
    with quiet():
        world = live(seed)
    assert check_itself(world) >= 3


# -- edited playbooks ------------------------------------------------------------------------

SHOP = """
- step: start
  tool: {kind: http, url: "https://x.test/{{ workload.id }}"}
  next:
    arcs:
      - {step: big, when: "{{ start.total > workload.limit }}"}
      - {step: small, args: {total: "{{ start.total }}"}}
- step: big
  tool: {kind: python, code: "a"}
- step: small
  loop: {in: "{{ start.lines }}", iterator: line, spec: {mode: parallel, max_in_flight: 3}}
  tool:
    - name: save
      kind: python
      code: "b"
      args: {line: "{{ iter.line }}"}
      spec:
        policy:
          rules:
            - {when: "{{ outcome.error }}", then: {do: retry, attempts: 3, delay: 20}}
            - else: {then: {do: continue, set_ctx: {saved: {$add: 1}}}}
  next: {arcs: [{step: last}]}
- step: last
  tool: {kind: noop, args: {n: "{{ ctx.saved }}"}}
"""


def shop(edit: tuple[str, str] | None = None, workload: str = "{id: 7, limit: 100}") -> Plan:
    text = SHOP
    if edit is not None:
        assert edit[0] in text
        text = text.replace(*edit)
    return plan_of(text, workload)


def answer(need: Need) -> Answered:
    if need.kind == "http":
        data = {"total": 60, "lines": ["a", "b"]}
        return Took(ok({"status_code": 200, "headers": {}, "data": data}, shape="http"), 1)
    if need.kind == "noop":
        return natural(need)
    if need.task == "save" and need.attempt == 1 and need.index == 1:
        return failed("flaky", "not yet", retryable=True)
    return Took(ok({"saved": need.config.get("args")}), 0.5)


def record(plan: Plan, wishes: tuple[Wish, ...] = ()) -> Rehearsed:
    opening = Opening(execution_id="e1", at=1_800_000_000.0, payload={"id": 8})
    return rehearse(plan, answer, KINDS, opening, wishes=wishes)


def replayed(plan: Plan, against: Plan, found: Rehearsed | None = None) -> Replayed:
    found = found or record(plan)
    return replay(Recording("e1", found.entries, plan), against, KINDS, natural, found.values)


def test_the_same_playbook_is_identical_and_calls_nothing() -> None:
    found = replayed(shop(), shop())
    assert (found.verdict, found.recorded, found.status, found.notes) == ("identical", "completed", "completed", [])


def test_another_condition_diverges_at_its_step_with_the_values_that_decided() -> None:
    found = replayed(shop(), shop(("start.total > workload.limit", "start.total > 50")))
    differs = found.divergence
    assert differs is not None
    assert (found.verdict, differs.what, differs.step, differs.run_id) == ("diverges", "arcs", "start", "start:1")
    assert (differs.log["arcs"], differs.new["arcs"]) == (["small"], ["big"])
    assert differs.because[0] == {
        "arc": "big", "when": "{{ start.total > 50 }}", "holds": True, "values": {"start": {"total": 60}}}
    assert sentence(differs) == "step start: the log has step.done to small; now it is step.done to big"
    assert [need.step for need in found.needs] == ["big"], "the new way makes a call that was never recorded"


def test_a_new_default_in_the_workload_is_a_note_and_what_it_decides_a_difference() -> None:
    noted = replayed(shop(), shop(workload="{id: 7, limit: 100, colour: red}"))
    assert (noted.verdict, noted.notes) == ("identical", ["the workload differs from the recorded one: colour"])
    found = replayed(shop(), shop(workload="{id: 7, limit: 10}"))
    assert found.divergence is not None
    assert found.divergence.because[0]["values"] == {"start": {"total": 60}, "workload.limit": 10}


def test_an_added_task_needs_its_calls() -> None:
    edit = ("- step: last\n  tool: {kind: noop, args: {n: \"{{ ctx.saved }}\"}}",
            "- step: last\n  tool: [{name: tell, kind: http, url: \"https://y.test/{{ ctx.saved }}\"}]")
    found = replayed(shop(), shop(edit))
    assert (found.verdict, found.divergence, found.status) == ("needs_calls", None, "running")
    [need] = shape(found)["needs"]
    assert need == {"step": "last", "run_id": "last:1", "index": -1, "task": "tell", "kind": "http", "attempt": 1,
                    "element": -1, "config": {"url": "https://y.test/2"}, "auth": None}


def test_an_edited_call_is_told_and_its_recorded_outcome_used() -> None:
    found = replayed(shop(), shop(('code: "b"', 'code: "c"')))
    assert found.verdict == "identical"
    assert found.notes == ["task save of step small was edited; its recorded outcome was used"]


def test_another_policy_is_carried_out_over_the_recorded_outcomes() -> None:
    found = replayed(shop(), shop(("attempts: 3", "attempts: 1")))
    differs = found.divergence
    assert differs is not None
    assert (differs.what, differs.task, differs.index) == ("task", "save", 1)
    assert (differs.log["do"], differs.new["do"]) == ("retry", "fail"), "used up, and else does not take it"
    assert differs.because[0]["values"] == {"outcome": {"error": {
        "kind": "flaky", "message": "not yet", "retryable": True}}}
    assert differs.because[0]["holds"] is True


def test_a_renamed_step_is_a_new_one() -> None:
    text = SHOP.replace("step: small", "step: tiny")
    found = replayed(shop(), plan_of(text, "{id: 7, limit: 100}"))
    assert found.verdict == "diverges"
    assert {(need.step, need.task) for need in found.needs} == {("tiny", "save")}


def test_another_collection_diverges_at_the_loop() -> None:
    found = replayed(shop(), shop(('in: "{{ start.lines }}"', 'in: "{{ start.lines[:1] }}"')))
    assert found.divergence is not None
    assert sentence(found.divergence) == 'step small: the log has 2 elements ["a","b"]; now it is 1 elements ["a"]'


def test_a_task_without_effect_is_made_anew() -> None:
    found = replayed(shop(), shop(("{n: \"{{ ctx.saved }}\"}", "{n: \"{{ ctx.saved + 1 }}\"}")))
    assert found.divergence is not None
    assert (found.divergence.what, found.divergence.step) == ("result", "last")
    assert (found.divergence.log.value, found.divergence.new.value) == ({"n": 2}, {"n": 3})


def test_another_admission_diverges_where_the_step_is_entered_or_not() -> None:
    text = """
    - step: start
      next: {{arcs: [{{step: gate, args: {{n: 3}}}}]}}
    - step: gate
      spec: {{policy: {{admit: {{rules: [{{when: "{{{{ args.n > {0} }}}}", then: {{allow: true}}}}]}}}}}}
      tool: {{kind: python, code: "-"}}
    """
    open_, shut = plan_of(text.format(1)), plan_of(text.format(5))
    found = replayed(open_, shut)
    assert found.divergence is not None
    assert (found.divergence.what, found.divergence.step, found.divergence.new) == ("path", "gate", "nothing")
    assert found.divergence.because == [
        {"rule": 0, "allow": True, "when": "{{ args.n > 5 }}", "holds": False, "values": {"args": {"n": 3}}}]
    found = replayed(shut, open_)
    assert found.divergence is None or found.divergence.what == "admission"
    assert [need.step for need in found.needs] == ["gate"]
    assert found.verdict == "needs_calls"


def test_a_refused_request_is_replayed_against_a_playbook_that_takes_it() -> None:
    strict, mild = plan_of(SHOP, '{id: 7, limit: "{{ payload.nosuch }}"}'), shop()
    refused = record(strict)
    assert refused.status == "failed"
    found = replay(Recording("e1", refused.entries, None), mild, KINDS, natural, {})
    assert found.divergence is not None
    assert (found.verdict, found.divergence.what, found.divergence.new) == ("diverges", "request", {"error": None})


def test_a_loop_of_many_iterations_is_replayed_in_its_order() -> None:
    plan = plan_of("""
    - step: start
      loop: {in: "{{ range(400) | list }}", iterator: i, spec: {mode: parallel, max_in_flight: 50}}
      tool: {kind: python, code: "-"}
    """)
    opening = Opening(execution_id="e1")
    whole = rehearse(plan, lambda need: Took(ok(need.index), (need.index * 7919) % 13), KINDS, opening)
    assert replayed(plan, plan, whole).verdict == "identical"


def test_rows_that_were_claimed_are_the_elements_again() -> None:
    text = """
    - step: start
      loop: {{cursor: {{kind: postgres, connection: "postgres://", claim: "{0}", frame: 2}}, iterator: row}}
      tool: {{kind: python, code: "-", args: {{k: "{{{{ row.k }}}}"}}}}
    """
    plan = plan_of(text.format("TAKE"))

    def claim(need: Need) -> Answered:
        rows = [{"k": k} for k in range(need.frame * 2, min(need.frame * 2 + 2, 3))]
        return ok({"rows": rows, "columns": ["k"]}) if need.frame >= 0 else ok(need.config["args"]["k"])

    whole = rehearse(plan, claim, KINDS, Opening(execution_id="e1"))
    assert replayed(plan, plan, whole).verdict == "identical"
    edited = replayed(plan, plan_of(text.format("TAKE MORE")), whole)
    assert edited.verdict == "identical"
    assert edited.notes == ["the cursor of step start was edited; the rows that were claimed were used"]


def test_a_cancelled_execution_is_replayed_with_its_cancel() -> None:
    plan = shop()
    cancelled = record(plan, (Wish(ev.CancelRequested("enough"), 1.2),))
    found = replayed(plan, plan, cancelled)
    assert (found.verdict, found.recorded, found.status) == ("identical", "cancelled", "cancelled")


def test_an_unfinished_execution_is_compared_as_far_as_it_goes() -> None:
    whole = record(shop())
    for length in range(1, len(whole.entries)):
        found = replay(Recording("e1", whole.entries[:length], shop()), shop(), KINDS, natural, whole.values)
        assert (found.verdict, found.recorded) == ("identical", "running"), (length, shape(found))
    edited = shop(("start.total > workload.limit", "start.total > 50"))
    found = replay(Recording("e1", whole.entries[:-1], shop()), edited, KINDS, natural, whole.values)
    assert found.verdict == "diverges"


def test_outcomes_that_rules_changed_are_taken_over_with_their_decision() -> None:
    plan = plan_of("""
    - step: start
      tool:
        name: fetch
        kind: http
        url: "https://x.test"
        spec: {policy: {rules: [{else: {then: {do: continue, result: "{{ outcome.result.data.n }}"}}}]}}
    """)
    data = {"status_code": 200, "headers": {}, "data": {"n": 5}}
    whole = rehearse(plan, lambda _need: ok(data, shape="http"), KINDS, Opening(execution_id="e1"))
    assert replayed(plan, plan, whole).verdict == "identical"


@pytest.mark.parametrize("seed", range(5))
def test_histories_of_other_orders_and_faults_are_identical_to_themselves(seed: int) -> None:
    plan = shop()
    conditions = Conditions(chooser=Seeded(seed), seed=seed, faults=Faults(crash=0.3, dup=0.3))
    found = rehearse(plan, answer, KINDS, Opening(execution_id="e1"), conditions)
    assert replayed(plan, plan, found).verdict == "identical"


MISTAKE = "spec: {policy: {rules: [{when: \"{{ outcome.status == 'ok' and _attempt.foo() }}\", then: {do: fail}}]}}"


@pytest.mark.parametrize("step", [
    '{step: start, tool: {kind: http, url: "http://x"}, retry: {retry_when: "{{ success and data.total.foo() }}"}}',
    '{step: start, tool: {kind: http, url: "http://x"}, sink: {tool: {kind: http, url: "http://y", SPEC}, args: {}}}',
], ids=["retry", "sink"])
def test_a_rule_that_could_not_be_asked_is_identical_to_itself(step: str) -> None:
    plan = plan_of(f"- {step.replace('SPEC', MISTAKE)}")
    found = replayed(plan, plan)
    assert (found.verdict, found.recorded, found.status) == ("identical", "failed", "failed"), shape(found)
