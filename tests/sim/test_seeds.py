"""Hundreds of worlds in which things go wrong, and nothing may come of it."""

import pytest

from tests.sim.run import report, run_seed

SEEDS = 300
CHUNK = 25


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_worlds_with_faults_end_as_if_there_were_none(first: int) -> None:
    for seed in range(first, first + CHUNK):
        found = run_seed(seed)
        assert not found, report(seed, found)


def test_a_seed_runs_the_same_every_time() -> None:
    stories: list[list[str]] = [[], []]
    for story in stories:
        run_seed(7, story.append)
    assert len(stories[0]) > 10
    assert stories[0] == stories[1]
