"""Any order of completion leads to the same end state; every token ends."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.events import model as ev
from shared.events.outcome import Outcome, failed, ok
from tests.unit.engine.support import Driver, plan_of

NETS = [
    """
- step: start
  tool: {kind: noop}
  next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: c}]}
- {step: a, tool: {kind: noop}, next: {arcs: [{step: d, args: {a: 1}}]}}
- {step: b, tool: {kind: noop}, next: {spec: {mode: inclusive}, arcs: [{step: d, args: {b: 2}}, {step: c}]}}
- {step: c, tool: {kind: noop}, next: {arcs: [{step: e, args: {c: 3}}]}}
- {step: d, tool: {kind: noop}, next: {arcs: [{step: e, args: {d: 4}}]}}
- {step: e, tool: {kind: noop}}
""",
    """
- step: start
  tool: {kind: noop}
  next: {spec: {mode: inclusive}, arcs: [{step: fan}, {step: side}]}
- step: fan
  loop: {in: "{{ [1, 2, 3, 4] }}", iterator: i, spec: {mode: parallel, max_in_flight: 2}}
  spec: {policy: {failure: {mode: best_effort}}}
  tool:
    kind: noop
    spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {sum: {$add: "{{ i }}"}}}}}]}}
  next: {arcs: [{step: last}]}
- step: side
  tool: {kind: noop}
  next: {arcs: [{step: last, when: "{{ event.name in ['step.done', 'step.failed'] }}"}]}
- {step: last, tool: {kind: noop}}
""",
]


def work(step: str, _task: str, _names: object) -> Outcome:
    return failed("boom", "side") if step == "side" else ok(step)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(net=st.sampled_from(NETS), choices=st.lists(st.integers(0, 7), max_size=40))
def test_any_completion_order_gives_the_same_end(net: str, choices: list[int]) -> None:
    picks = iter(choices)
    run = Driver(plan_of(net), work).run(choose=lambda n: next(picks, 0) % n)
    plain = Driver(plan_of(net), work).run()
    assert run.state.status == plain.state.status == "completed"
    assert run.state.ctx == plain.state.ctx
    assert run.state.counts == plain.state.counts
    assert not run.state.tokens
    made = {e.token_id for e in run.find(ev.TokenCreated)}
    used = [t for e in run.find(ev.StepScheduled) for t in e.tokens] + [e.token_id for e in run.find(ev.TokenRejected)]
    assert sorted(made) == sorted(used)
