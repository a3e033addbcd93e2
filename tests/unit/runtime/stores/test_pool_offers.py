"""Which pool each step gets, as it is recorded: a reason that people can go on with when there is none."""

import pytest

from shared.engine.pools.placement import Offer
from shared.runtime.stores.pool_offers import choose
from tests.unit.engine.pools.test_placement import offer, plan


@pytest.mark.parametrize(("offers", "there"), [
    ([offer("b"), offer("a", "gpu")], "a, b"), ([], "none with a document"),
])
def test_what_nobody_provides_is_told_with_where_to_look(offers: list[Offer], there: str) -> None:
    assert choose(plan().steps, offers) == (
        "no pool provides eu and gpu, which step start requires "
        f"(pools: {there}; noetlctl pool list -o wide shows what each provides)"
    )


def test_what_somebody_provides_is_chosen() -> None:
    assert choose(plan().steps, [offer("a", "gpu", "eu")]) == {"start": "a"}
