"""What the net analysis proves, the engine keeps to, on random workflows and random orders."""

import random
from typing import Any

import pytest

from shared.dsl.check import token_net
from shared.dsl.check.join_net import too_few
from shared.dsl.model.plan import Plan
from shared.engine.routing import decide as routing
from shared.engine.routing import joins
from shared.engine.routing.state import Execution
from shared.events import model as ev
from shared.events.outcome import Outcome, failed, ok
from tests.unit.engine.support import Driver, plan_of

SEEDS = range(120)
COMMANDS = 60
MOST_TOKENS = 40
JOINED_SEEDS = range(1000, 1080)


def workflow(rng: random.Random, kinds: tuple[str, ...] = ("all",)) -> Plan:
    names = ["start", *(f"s{index}" for index in range(rng.randint(2, 5)))]
    lines = []
    for name in names:
        targets = rng.sample(names, rng.randint(0, min(3, len(names))))
        arcs = ", ".join(f"{{step: {target}, when: '{{{{ {_condition(rng)} }}}}'}}" if rng.random() < 0.5
                         else f"{{step: {target}}}" for target in targets)
        mode = rng.choice(["exclusive", "inclusive"])
        spec = f"{{policy: {{admit: {{join: {rng.choice(kinds)}}}}}}}"
        lines.append(f"- {{step: {name}, spec: {spec}, tool: {{kind: noop}}, "
                     f"next: {{spec: {{mode: {mode}}}, arcs: [{arcs}]}}}}")
    return plan_of("\n".join(lines))


def _condition(rng: random.Random) -> str:
    fact = rng.choice(["event.payload.result.a", "event.payload.result.b", 'event.name == "step.failed"'])
    return rng.choice(["", "not "]) + (f"({fact} | default(false))" if "result" in fact else fact)


def play(plan: Plan, rng: random.Random, monkeypatch: pytest.MonkeyPatch) -> tuple[Driver, bool, int]:
    """The driver after some commands, whether all tokens ever waited, and the most tokens there were."""
    waited: list[bool] = []

    def next_move(plan: Plan, state: Execution) -> joins.Move | None:
        found = joins.next_move(plan, state)
        if found is not None and not state.runs and (found.do == "reject" or found.step.join == "all"):
            places = {token.step for token in state.tokens.values()}
            waited.append(any(found.step.name in plan.reach[place] for place in places - {found.step.name}))
        return found

    def work(_step: str, _task: str, _names: dict[str, Any]) -> Outcome:
        if rng.random() < 0.1:
            return failed("test", "by chance")
        return ok({"a": rng.random() < 0.6, "b": rng.random() < 0.6})

    monkeypatch.setattr(routing, "next_move", next_move)
    driver, most = Driver(plan, work), 0
    driver.control()
    for _ in range(COMMANDS):
        if not driver.queue:
            break
        command = driver.queue.pop(rng.randrange(len(driver.queue)))
        driver.report(command, driver.perform(command))
        driver.control()
        most = max(most, len(driver.state.tokens))
    return driver, any(waited), most


@pytest.mark.parametrize("seed", SEEDS)
def test_the_engine_keeps_to_what_is_proved(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    _keeps(workflow(rng), rng, monkeypatch)


@pytest.mark.parametrize("seed", JOINED_SEEDS)
def test_the_engine_keeps_to_what_is_proved_with_other_joins(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    _keeps(workflow(rng, ("all", "each", "any", "2", "3")), rng, monkeypatch)


def _keeps(plan: Plan, rng: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    never = {name for name, _ in too_few(plan)}
    found = token_net.analyse(plan, limit=5_000)
    for _ in range(5):
        driver, waited, most = play(plan, rng, monkeypatch)
        assert not set(driver.steps()) & {*found.runs.steps, *never}
        if found.waits.answer == "proved":
            assert not waited
        if found.bounded.answer == "proved":
            assert most < MOST_TOKENS
        if found.ends.answer == "possible" and not driver.queue and driver.state.status == "completed":
            entered = {step for event in driver.find(ev.NextSelected) for step in event.arcs}
            assert not entered & set(found.ends.steps)
