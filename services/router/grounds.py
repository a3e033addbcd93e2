"""What the executions of a playbook begin on: the pools that its steps get, and whether all that it needs is there. It
is found out once for all requests of a batch."""

from shared.bus.ports import Bus, Clock
from shared.dsl.model.plan import Plan
from shared.engine.pools import placement
from shared.runtime.stores import pool_offers
from shared.runtime.stores.readiness import Readiness

# By step, or the reason when no pool has what one requires; and why no step can begin: the error's kind and words.
Ground = tuple[dict[str, str] | str, tuple[str, str] | None]
NO_GROUND: Ground = {}, None  # of what has no plan


class Grounds:
    """Call `forget` before each batch."""

    def __init__(self, bus: Bus, clock: Clock, readiness: Readiness) -> None:
        self._bus, self._clock, self._readiness = bus, clock, readiness
        self._offers: list[placement.Offer] | None = None
        self._known: dict[str, Ground] = {}  # by plan

    def forget(self) -> None:
        self._offers, self._known = None, {}
        self._readiness.forget()

    async def of(self, plan: Plan) -> Ground:
        found = self._known.get(plan.digest)
        if found is None:
            found = self._known[plan.digest] = await self._pools(plan), await self._unready(plan)
        return found

    async def _pools(self, plan: Plan) -> dict[str, str] | str:
        if not placement.needs(plan.steps):
            return {}
        if self._offers is None:
            self._offers = await pool_offers.read(self._bus, self._clock.now())
        return pool_offers.choose(plan.steps, self._offers)

    async def _unready(self, plan: Plan) -> tuple[str, str] | None:
        found = await self._readiness.unready(plan)
        return None if found is None else (found.kind, found.message)
