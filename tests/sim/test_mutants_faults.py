"""The faults of stopped workers, cancels and clusters are worth something: each finds what it is there for."""

import pytest

from tests.sim.mutants.faults import MUTANTS
from tests.sim.mutants.search import must_be_caught


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_caught_within_the_seeds(name: str) -> None:
    mutant, wanted = MUTANTS[name]
    must_be_caught(name, mutant, wanted)
