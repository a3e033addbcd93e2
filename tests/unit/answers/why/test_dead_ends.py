"""Why a step was never entered: the arcs that did not hold, with what they read."""

from shared.answers.why.facts import World
from shared.events.outcome import ok
from tests.unit.answers.why.stalls import LATER, Stall

BRANCH = """
- step: start
  tool: {kind: noop, args: {n: 1}}
  next: {arcs: [{step: b, when: "{{ start.n > 5 }}"}, {step: c, when: "{{ workload.least < 5 }}"}]}
- {step: b, tool: {kind: noop}}
- {step: c, tool: {kind: noop}}
"""
CYCLE = """
- step: start
  next: {arcs: [{step: again}]}
- step: again
  tool:
    kind: noop
    spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {n: "{{ ctx.n | default(0) + 1 }}"}}}}]}}
  next: {arcs: [{step: again, when: "{{ ctx.n < 3 }}"}]}
"""


def test_a_step_that_no_arc_leads_to_is_told_with_what_the_arcs_read() -> None:
    stall = Stall(BRANCH, {"least": 10})
    stall.work = lambda *_: ok({"n": 1})
    stall.run()
    reason = stall.reason("arcs.none")
    assert (reason.step, reason.kind, reason.values["steps"]) == ("start", "note", ["b", "c"])
    assert [(each["arc"], each["holds"], each["values"]) for each in reason.values["arcs"]] == [
        ("b", False, {"start": {"n": 1}}), ("c", False, {"workload.least": 10})]
    assert "to b: {{ start.n > 5 }} is false, start = {'n': 1}; to c: " in reason.text


def test_a_cycle_that_ends_is_no_riddle() -> None:
    stall = Stall(CYCLE)
    stall.run()
    assert stall.state.status == "completed"
    assert [reason.cause for reason in stall.why(World(LATER)).reasons] == ["over"]
