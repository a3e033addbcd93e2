"""Which executions a purge takes: whole families, and only when all of them are over and old."""

from hypothesis import given
from hypothesis import strategies as st

from services.cli.admin.retention import Choice, choose

IDS = st.sampled_from([f"e{n}" for n in range(12)])


def test_an_execution_without_relatives_goes_when_it_is_old() -> None:
    assert choose(["a", "b"], [], 10) == Choice(("a", "b"))


def test_a_child_that_is_not_over_keeps_its_parent() -> None:
    assert choose(["parent", "x"], [("child", "parent")], 10) == Choice(("x",), related=1)


def test_a_rerun_that_is_young_keeps_the_family_of_what_it_was_made_from() -> None:
    edges = [("child", "old"), ("rerun", "old")]
    assert choose(["old", "child"], edges, 10) == Choice((), related=2)


def test_a_family_goes_as_a_whole_and_before_the_limit() -> None:
    edges = [("b", "a"), ("c", "b")]
    assert set(choose(["a", "b", "c"], edges, 1).chosen) == {"a", "b", "c"}
    assert choose(["x", "a", "b", "c"], edges, 2) == Choice(("x",), more=True)


def test_relatives_that_were_purged_before_hold_nobody_back_and_do_not_go_again() -> None:
    assert choose(["rerun"], [("rerun", "gone")], 10, frozenset({"gone"})) == Choice(("rerun",))


@given(st.lists(IDS, unique=True), st.lists(st.tuples(IDS, IDS)), st.integers(1, 12))
def test_nobody_chosen_is_related_to_anyone_who_is_not(
    old: list[str], edges: list[tuple[str, str]], limit: int
) -> None:
    chosen = set(choose(old, edges, limit).chosen)
    assert chosen <= set(old)
    assert all((one in chosen) == (other in chosen) for one, other in edges)
