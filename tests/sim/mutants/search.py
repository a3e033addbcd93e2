"""Looks for the world that finds a mutant: first the one that did when this was written, then all the others.

Worlds are others as soon as a service sends one message more, so the first look may miss. The mutant is then searched
for from the first seed on, and fails the test if none finds it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

import pytest

from tests.sim import checks
from tests.sim.run import live, quiet
from tests.sim.test_seeds import SEEDS

Mutant = Callable[[], AbstractContextManager[None]]
FOUND_BY = {
    "no expected sequence": 0,
    "ack before append": 2,
    "stale cached state": 4,
    "no epoch fence": 6,
    "dedupe by message id alone": 0,
    "split decision": 0,
    "wall time": 1,
    "effects like reads": 392,
    "no mending": 34,
    "stops that purge": 23,
    "older leases": 18,
    "claims that extend nothing": 56,
    "reads that do not belong together": 30,
    "one wait for all": 48,
    "unknown conflict": 0,
}


def must_be_caught(name: str, mutant: Mutant, wanted: Sequence[str]) -> None:
    for seed in _seeds(name):
        with quiet(), mutant():
            world = live(seed)
        found = checks.check(world)  # with the rules as they should be
        if found:
            assert any(reason in line for line in found for reason in wanted), (seed, found)
            return
    pytest.fail(f"{SEEDS} worlds did not find: {name}")


def _seeds(name: str) -> Iterator[int]:
    """After an absence a worker extends all it holds within half a second: whether its claims extend anything matters
    only for a command that arrives just behind that, which is so in one world of a hundred; whether an effect waits
    for what was read matters only when its worker is cut off just then. So the worlds go on behind those of the other
    tests."""
    likely = FOUND_BY[name]
    yield likely
    yield from (seed for seed in range(2 * SEEDS) if seed != likely)
