"""The seeds and the checks are worth something: each broken promise is found."""

import pytest

from tests.sim.mutants.promises import MUTANTS
from tests.sim.mutants.search import must_be_caught

WANTED = {
    "no expected sequence": ("numbering", "decision"),
    "ack before append": ("for ever", "never started"),
    "stale cached state": ("for ever", "broke"),
    "no epoch fence": ("decision", "pipeline", "terminal", "call", "idle for ever"),
    "dedupe by message id alone": ("no request of its own", "numbering", "router 1: as of 0, after"),
    "split decision": ("decision",),
    "wall time": ("clock: ",),
    "effects like reads": ("call: ",),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_caught_within_the_seeds(name: str) -> None:
    must_be_caught(name, MUTANTS[name], WANTED[name])
