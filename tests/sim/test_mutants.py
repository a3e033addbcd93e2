"""The seeds and the checks are worth something: each broken promise is found."""

import pytest

from tests.sim import checks
from tests.sim.mutants.promises import MUTANTS
from tests.sim.run import live, quiet
from tests.sim.test_seeds import SEEDS

WANTED = {
    "no expected sequence": ("numbering", "decision"),
    "ack before append": ("for ever", "never started"),
    "stale cached state": ("for ever", "broke"),
    "no epoch fence": ("decision", "pipeline", "terminal", "call", "idle for ever"),
    "dedupe by message id alone": ("no request of its own", "numbering", "router 1: as of 0, after"),
    "split decision": ("decision",),
    "wall time": ("clock: ",),
}


def found_by(name: str, seed: int) -> list[str]:
    with quiet(), MUTANTS[name]():
        world = live(seed)
    return checks.check(world)  # with the rules as they should be


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_caught_within_the_seeds(name: str) -> None:
    for seed in range(SEEDS):
        found = found_by(name, seed)
        if found:
            assert any(reason in line for line in found for reason in WANTED[name]), (seed, found)
            return
    pytest.fail(f"{SEEDS} worlds did not find: {name}")
