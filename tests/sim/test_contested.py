"""On replicas an append may be refused because another is on its way, and that one may never arrive."""

from tests.sim import checks
from tests.sim.run import ask_for, live_through
from tests.sim.world import World


def test_a_request_whose_first_record_was_contested_by_nothing_is_started_all_the_same() -> None:
    met: set[str] = set()

    def contested(client: str, subject: str) -> bool:
        """Each subject once."""
        is_first = "#" in client and subject.startswith("noetl.events.") and subject not in met
        met.add(subject)
        return is_first

    async def story(world: World) -> None:
        world.broker.contested = contested
        await world.live_in_peace([ask_for("sim/chain", "e0"), ask_for("sim/calls", "e1")])

    world = live_through(story)
    assert any(subject.endswith(".e0.router") for subject in met)
    assert checks.check(world) == []
