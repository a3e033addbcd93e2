"""The faults of stopped workers, cancels and clusters are worth something: each finds what it is there for."""

import pytest

from tests.sim import checks
from tests.sim.mutants.faults import MUTANTS
from tests.sim.run import live, quiet
from tests.sim.test_seeds import SEEDS

# After an absence a worker extends all it holds within half a second: it matters only for a command that arrives just
# behind that, which is so in one world of a hundred. These are looked at in the worlds behind those of the others.
RARE = {"claims that extend nothing"}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_caught_within_the_seeds(name: str) -> None:
    mutant, wanted = MUTANTS[name]
    first = SEEDS if name in RARE else 0
    for seed in range(first, first + SEEDS):
        with quiet(), mutant():
            world = live(seed)
        found = checks.check(world)  # with the rules as they should be
        if found:
            assert any(reason in line for line in found for reason in wanted), (seed, found)
            return
    pytest.fail(f"{SEEDS} worlds did not find: {name}")
