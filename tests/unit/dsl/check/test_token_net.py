"""The token net: what is proved, what is possible, and when the analysis gives up."""


import pytest

from shared.dsl.check import token_net
from tests.support.paths import DOCS
from tests.unit.dsl.check.support import codes_of, plan_of


def test_a_chain_is_proved_without_looking_at_states() -> None:
    found = token_net.analyse(plan_of("start -> a", "a -> end", "(end) ->"))
    assert found == token_net.Net(token_net.PROVED, token_net.PROVED, token_net.PROVED, token_net.PROVED, states=0)


def test_a_choice_that_goes_back_is_proved_because_there_is_one_token() -> None:
    found = token_net.analyse(plan_of("start -> a", "a -> start?x end", "(end) ->"))
    assert (found.ends.answer, found.bounded.answer, found.waits.answer) == ("proved",) * 3


def test_branches_without_a_cycle_always_join() -> None:
    found = token_net.analyse(plan_of("start => a b c?x", "a -> join", "b -> join", "c -> join", "join ->"))
    assert (found.bounded.answer, found.waits.answer, found.states) == ("proved", "proved", 0)


def test_branches_that_each_repeat_do_not_wait_for_each_other() -> None:
    found = token_net.analyse(plan_of("start => a b", "a -> a?x join", "b -> b?y join", "join ->"))
    assert (found.bounded.answer, found.waits.answer) == ("proved", "proved")
    assert 0 < found.states < 50


def test_branches_inside_one_cycle_wait_for_each_other() -> None:
    found = token_net.analyse(plan_of("start => a b", "a -> join", "b -> join", "join -> start?x"))
    assert found.waits == token_net.Verdict("possible", ("a", "b"))
    assert found.bounded == token_net.PROVED  # the earliest is released, so each is entered in turn


def test_a_cycle_that_forks_outwards_piles_up_tokens() -> None:
    found = token_net.analyse(plan_of("start => start?x log", "log ->"))
    assert found.bounded == token_net.Verdict("possible", ("log",))


def test_arcs_that_exclude_each_other_do_not_fork() -> None:
    found = token_net.analyse(plan_of("start => start?x log?!x", "log ->"))
    assert found.bounded == token_net.PROVED


def test_a_cycle_with_no_other_arc_can_only_end_by_a_failure() -> None:
    found = token_net.analyse(plan_of("start -> a", "a -> b", "b -> a"))
    assert found.ends == token_net.Verdict("possible", ("a", "b"))


def test_a_condition_on_the_way_back_lets_the_token_end() -> None:
    assert token_net.analyse(plan_of("start -> a", "a -> b", "b -> a?x")).ends == token_net.PROVED


def test_a_step_no_arc_leads_to_never_runs() -> None:
    found = token_net.analyse(plan_of("start -> end", "lost -> end", "(end) ->"))
    assert found.runs == token_net.Verdict("possible", ("lost",))


def test_a_net_over_the_limit_of_states_is_too_large() -> None:
    steps = ("start => a b", "a -> a?x join", "b -> b?y join", "join ->")
    needed = token_net.analyse(plan_of(*steps)).states
    assert token_net.analyse(plan_of(*steps), limit=needed).waits.answer == "proved"
    found = token_net.analyse(plan_of(*steps), limit=needed - 1)
    assert (found.waits.answer, found.bounded.answer) == ("too large", "too large")
    assert found.states == needed - 1


def test_too_many_undecided_arcs_of_one_step_are_too_large() -> None:
    def fan(count: int) -> token_net.Net:
        names = [f"s{index}" for index in range(count)]
        targets = " ".join(f"{name}?x" for name in names)
        loops = (f"{name} -> {name}?y" for name in names)
        return token_net.analyse(plan_of(f"start => {targets}", *loops), limit=10_000)

    assert fan(token_net.MAX_CHOICES).waits.answer == "proved"
    assert fan(token_net.MAX_CHOICES + 1).waits.answer == "too large"


def test_the_search_for_ways_round_is_limited_too(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of("start => a b", "a -> join", "b -> join", "join -> start?x")
    assert token_net.analyse(plan).bounded.answer == "proved"
    monkeypatch.setattr(token_net, "MAX_VISITS", 0)
    assert token_net.analyse(plan).bounded.answer == "too large"


def test_the_limits_are_documented() -> None:
    text = (DOCS / "dsl.md").read_text(encoding="utf-8")
    assert f"after {token_net.MAX_STATES:,} states, or with more than {token_net.MAX_CHOICES} undecided arcs" in text


def test_what_is_too_large_is_not_told_as_a_mistake() -> None:
    names = [f"s{index}" for index in range(token_net.MAX_CHOICES + 1)]
    targets = " ".join(f"{name}?x" for name in names)
    assert codes_of(f"start => {targets}", *(f"{name} -> {name}?y" for name in names)) == []


def test_five_hundred_steps_are_checked_within_the_limit_of_states() -> None:
    chain = [f"s{index} -> s{index - 7}?x s{index + 1}" for index in range(10, 490)]
    forks = [f"s{index} => s{index + 1} s{index + 2}" for index in range(1, 10)]
    plan = plan_of("start -> s1", *forks, *chain, "s490 ->", *(f"s{index} -> s490" for index in range(491, 499)))
    assert len(plan.steps) == 499
    assert token_net.analyse(plan).states <= token_net.MAX_STATES


@pytest.mark.parametrize(("steps", "code"), [
    (("start => start?x log", "log ->"), "DSL907"),
    (("start => a b", "a -> b", "b -> a?x"), "DSL908"),
    (("start -> a", "a -> a"), "DSL909"),
])
def test_what_is_possible_is_warned_about(steps: tuple[str, ...], code: str) -> None:
    assert codes_of(*steps) == [code]
