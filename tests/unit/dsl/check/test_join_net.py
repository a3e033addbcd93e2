"""What the net analysis says of joins other than `all`, and how many tokens can come to a number."""

import pytest

from shared.dsl.check import join_net, token_net
from shared.dsl.compile import compile_playbook
from shared.dsl.model.plan import Plan
from tests.unit.dsl.check.support import source_of
from tests.unit.dsl.tool_kinds import KINDS


def plan_of(*steps: str, **joins: str) -> Plan:
    """As `support.plan_of`, with a join for the steps named."""
    source = source_of(*steps)
    for name, join in joins.items():
        step = f"{{step: {name}, "
        source = source.replace(step, f"{step}spec: {{policy: {{admit: {{join: {join}}}}}}}, ", 1)
    compiled = compile_playbook(source, kinds=KINDS)
    assert compiled.plan is not None, [str(each) for each in compiled.diagnostics]
    return compiled.plan


@pytest.mark.parametrize("join", ["each", "any", "2"])
def test_a_fork_in_a_cycle_is_not_looked_into_with_another_join(join: str) -> None:
    found = token_net.analyse(plan_of("start => a b", "a -> a?x join", "b -> b?y join", "join ->", join=join))
    assert (found.bounded, found.waits) == (token_net.TOO_LARGE, token_net.TOO_LARGE)


def test_two_arcs_to_one_step_fork_where_tokens_stay_apart() -> None:
    steps = ("start => a a", "a -> start?x end", "(end) ->")
    assert token_net.analyse(plan_of(*steps)).bounded == token_net.PROVED
    assert token_net.analyse(plan_of(*steps, a="each")).bounded == token_net.TOO_LARGE


def test_branches_without_a_cycle_end_whatever_the_join() -> None:
    found = token_net.analyse(plan_of("start => a b", "a -> join", "b -> join", "join ->", join="any"))
    assert (found.runs, found.bounded, found.waits) == (token_net.PROVED, token_net.PROVED, token_net.PROVED)


def test_that_a_number_is_reached_is_not_proved() -> None:
    found = token_net.analyse(plan_of("start => a b?x", "a -> join", "b -> join", "join ->", join="2"))
    assert found.runs == token_net.TOO_LARGE


def test_a_cycle_with_a_number_may_end_for_want_of_tokens() -> None:
    assert token_net.analyse(plan_of("start -> a", "a -> b", "b -> a", a="2")).ends == token_net.TOO_LARGE


@pytest.mark.parametrize(("steps", "joins", "most"), [
    (("start => a b c", "a -> meet", "b -> meet", "c -> meet"), {}, 3),
    (("start -> a b", "a -> meet", "b -> meet"), {}, 1),               # one or the other
    (("start => a b", "a -> m", "b -> m", "m -> meet"), {}, 1),        # they are one after m
    (("start => a b", "a -> m", "b -> m", "m -> meet"), {"m": "each"}, 2),
    (("start => a b", "a -> m", "b -> m", "m -> meet"), {"m": "any"}, 1),
    (("start => a b", "a -> m", "b -> m", "m -> meet"), {"m": "3"}, 0),
    (("start => meet meet a", "a => meet meet"), {}, 4),
    (("start => a b", "a -> a?x meet", "b -> meet"), {}, None),        # again and again
    (("start => a b", "a -> meet", "b -> meet", "meet -> start?x"), {}, None),
])
def test_the_most_tokens_that_can_come(steps: tuple[str, ...], joins: dict[str, str], most: int | None) -> None:
    own = [] if any(step.startswith("meet") for step in steps) else ["meet ->"]
    assert join_net.Arrivals(plan_of(*steps, *own, **joins, meet="5")).most("meet") == most


def test_so_many_joins_that_it_would_take_long_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of("start -> a", "a -> meet", "meet ->", meet="2")
    assert list(join_net.too_few(plan)) == [("meet", 1)]
    monkeypatch.setattr(join_net, "MAX_VISITS", 1)
    assert list(join_net.too_few(plan)) == []


def test_a_compensation_is_not_told_as_unreachable() -> None:
    source = source_of("start -> end", "(end) ->") + "  - {step: undo, tool: {kind: noop}}\n"
    source = source.replace("{step: start, ", "{step: start, spec: {policy: {compensate: undo}}, ")
    assert compile_playbook(source, kinds=KINDS).diagnostics == ()
