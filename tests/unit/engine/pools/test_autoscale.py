"""How many workers a demand asks for: up at once, down when it has been calm."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.engine.pools.autoscale import Need, Scaling, Trail, begin, follow, needed

SCALING = Scaling(least=1, most=10, target=20, calm_s=300.0)


@pytest.mark.parametrize(("demand", "workers"), [(0, 1), (1, 1), (20, 1), (21, 2), (199, 10), (10**9, 10)])
def test_one_worker_for_every_target_between_least_and_most(demand: int, workers: int) -> None:
    assert needed(SCALING, demand) == workers


def test_any_demand_starts_a_pool_at_zero_and_none_leaves_it_there() -> None:
    scaling = Scaling(0, 10, 1000, 300.0)
    assert (needed(scaling, 0), needed(scaling, 1)) == (0, 1)
    assert follow(scaling, begin(scaling, 0, 0.0), 1, 1.0)[0].workers == 1


def test_up_at_once_and_down_when_it_was_calm_for_long_enough() -> None:
    trail = begin(SCALING, 1, 0.0)
    trail = follow(SCALING, trail, 200, 1.0)
    assert trail[0].workers == 10
    trail = follow(SCALING, trail, 0, 2.0)
    assert trail[0].workers == 10
    trail = follow(SCALING, trail, 60, 100.0)
    assert trail[0].workers == 10
    trail = follow(SCALING, trail, 0, 301.0)
    assert trail[0].workers == 3
    trail = follow(SCALING, trail, 0, 400.0)
    assert trail == (Need(400.0, 1),)


def test_a_new_reconciler_keeps_what_is_there_for_as_long() -> None:
    trail = follow(SCALING, begin(SCALING, 7, 0.0), 0, 10.0)
    assert trail[0].workers == 7
    assert follow(SCALING, trail, 0, 300.0)[0].workers == 1
    assert begin(SCALING, 50, 0.0)[0].workers == 10


@given(st.lists(st.tuples(st.floats(0.1, 200.0), st.integers(0, 500)), min_size=1, max_size=60))
def test_it_is_the_most_that_was_needed_lately_and_the_trail_is_short(steps: list[tuple[float, int]]) -> None:
    now, trail, all_needs = 0.0, begin(SCALING, 1, 0.0), [Need(0.0, 1)]
    for passed, demand in steps:
        now += passed
        trail = follow(SCALING, trail, demand, now)
        all_needs.append(Need(now, needed(SCALING, demand)))
        lately = [need.workers for need in all_needs if now - need.at < SCALING.calm_s]
        assert trail[0].workers == max(lately)
        assert _falls(trail)
        assert len(trail) <= SCALING.most + 1


def _falls(trail: Trail) -> bool:
    return all(a.workers > b.workers and a.at < b.at for a, b in pairwise(trail))
