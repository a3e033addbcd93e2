"""The tests of clauses are worth something: with its clause taken away, each fails."""

import pytest

from tests.conformance.mutants import proof
from tests.conformance.mutants.tables import EVERY, QUICK


@pytest.mark.parametrize("name", QUICK)
def test_a_clause_that_is_taken_away_is_noticed(name: str) -> None:
    mutant = QUICK[name]
    with mutant.alive():
        assert proof.fails(mutant.test), f"{mutant.test} does not prove {', '.join(mutant.clauses)}"
    assert not proof.fails(mutant.test), "it fails also as the product is, or something of the mutant is left"


def test_a_mutant_changes_what_is_there() -> None:
    """Also those of the long form: the code they change is still the code."""
    for mutant in EVERY.values():
        with mutant.patch.applied():
            pass
