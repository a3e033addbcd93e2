"""Any order of completion leads to the same end state; every token ends.

With joins other than `all`, which tokens enter depends on the order, and so do the args. What holds then:
every token ends and each wave enters once, in every net; where no cycle is, the steps also run as often in every order.
"""

import random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.dsl.model.plan import Plan
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
    assert_every_token_ends_once(run)


def assert_every_token_ends_once(run: Driver) -> None:
    assert not run.state.tokens
    made = [e.token_id for e in run.find(ev.TokenCreated)]
    entered = [token for e in run.find(ev.StepScheduled) for token in e.tokens]
    ended = [e.token_id for e in (*run.find(ev.TokenRejected), *run.find(ev.TokenAbsorbed))]
    assert sorted(made) == sorted(entered + ended)


def random_net(rng: random.Random, *, cyclic: bool) -> Plan:
    """Steps that fail go on like the others. A way back is taken twice at most, so that every net ends."""
    names = ["start", *(f"s{n}" for n in range(rng.randint(3, 7)))]
    lines = []
    for place, name in enumerate(names):
        after = names[place + 1 :]
        arcs = [f"{{step: {each}, when: '{{{{ true }}}}', args: {{{name}: {place}}}}}"
                for each in sorted(rng.sample(after, min(len(after), rng.randint(1, 3))))]
        if cyclic and place and rng.random() < 0.5:
            back = rng.choice(names[1 : place + 1])
            arcs.append(f"{{step: {back}, when: '{{{{ ctx.{name} | default(0) < 3 }}}}'}}")
        join = rng.choice(["all", "each", "any", "2", "3"]) if place else "all"
        mode = rng.choice(["inclusive", "inclusive", "exclusive"])
        deny = ", rules: [{else: {then: {allow: false}}}]" if place and rng.random() < 0.1 else ""
        rule = f"spec: {{policy: {{rules: [{{else: {{then: {{do: continue, set_ctx: {{{name}: {{$add: 1}}}}}}}}}}]}}}}"
        lines.append(f"- {{step: {name}, spec: {{policy: {{admit: {{join: {join}{deny}}}}}}}, "
                     f"tool: {{kind: noop, {rule}}}, next: {{spec: {{mode: {mode}}}, arcs: [{', '.join(arcs)}]}}}}")
    return plan_of("\n".join(lines))


def assert_each_wave_enters_once(run: Driver) -> None:
    """The checker derives the waves from the log alone; run and wave have the same number."""
    assert run.violations() == []
    for event in run.find(ev.StepScheduled):
        if event.wave:
            assert event.run_id == f"{event.step}:{event.wave}"


def by_chance(rng: random.Random, plan: Plan) -> Driver:
    return Driver(plan, _breaks).run(choose=rng.randrange, most=400)


def _breaks(step: str, _task: str, _names: object) -> Outcome:
    return failed("boom", step) if step == "s1" else ok(step)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**9))
def test_without_a_cycle_every_order_runs_the_steps_as_often_whatever_the_joins(seed: int) -> None:
    rng = random.Random(seed)
    plan = random_net(rng, cyclic=False)
    runs = [by_chance(rng, plan) for _ in range(4)]
    for run in runs:
        assert run.state.status == "completed"
        assert run.state.counts == runs[0].state.counts
        assert run.state.ctx == runs[0].state.ctx
        assert_every_token_ends_once(run)
        assert_each_wave_enters_once(run)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**9))
def test_with_cycles_every_token_ends_and_each_wave_enters_once(seed: int) -> None:
    rng = random.Random(seed)
    plan = random_net(rng, cyclic=True)
    for _ in range(2):
        run = by_chance(rng, plan)
        assert run.state.status == "completed"
        assert_every_token_ends_once(run)
        assert_each_wave_enters_once(run)
