"""The projector's second task: keeps to what was said of results and of the read model, step by step.

It never ends the projector and never hurries: a step, a rest, a step. What goes wrong is logged and tried again in the
next pass. The policy is read again for each pass, and a document counts for results only when it is as old as the
margin, since routers may have decided by the one before it until then.
"""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime

import asyncpg
import structlog
from msgspec import Struct

from shared.bus.jetstream import JetStreamBus
from shared.bus.ports import Clock
from shared.errors import NoetlError
from shared.runtime.readmodel.database import Database
from shared.runtime.retention.families import Families
from shared.runtime.retention.sweep import BATCH, Place, Sweep, with_results
from shared.runtime.service import metric_names as names
from shared.runtime.service.metrics import Sample
from shared.runtime.service.retention import margin
from shared.runtime.service.settings import Settings
from shared.runtime.stores.retention import Policy, policy

PASS_S = 30.0      # from the end of one to the beginning of the next
REST_S = 0.05      # between two steps
FULL_S = 3600.0    # after so long rows are looked at from the first one on: a late record or a rebuild brings some back

log = structlog.get_logger()


class Told(Struct):
    """What has come of it so far: in all, and in the last pass."""

    removed: dict[str, int] = {}
    kept: dict[str, int] = {}
    passed: dict[str, float] = {}  # when a pass came to its end

    def samples(self) -> Iterator[Sample]:
        yield from (Sample(names.RETENTION_REMOVED, count, (what,)) for what, count in self.removed.items())
        yield from (Sample(names.RETENTION_KEPT, count, (what,)) for what, count in self.kept.items())
        yield from (Sample(names.RETENTION_PASSED, at, (what,)) for what, at in self.passed.items())


class Keeper:
    def __init__(self, bus: JetStreamBus, database: Database, settings: Settings, clock: Clock) -> None:
        self._bus, self._database, self._settings, self._clock = bus, database, settings, clock
        self.told = Told()
        self._from, self._began = Place(), -FULL_S
        self._why = ""

    async def run(self) -> None:
        while True:
            try:
                await self.once()
                why = ""
            except (NoetlError, asyncpg.PostgresError) as error:
                why = str(error)
            if why and why != self._why:  # once, and not with every pass
                log.warning("retention.failed", why=why)
            self._why = why
            await asyncio.sleep(PASS_S)

    async def once(self) -> None:
        now = await policy(self._bus, self._settings.retention)
        if now.kept.results:
            await self.results(now)
        if now.kept.read_model:
            await self.rows(now)

    async def results(self, now: Policy) -> None:
        at, beyond = self._clock.now(), margin(now.kept.results)
        if at < now.at + beyond:
            return
        before = datetime.fromtimestamp(at - beyond - now.kept.results, UTC)
        sweep, offset, again = self._sweep(), 0, True
        while again:
            page = await with_results(self._bus, offset)
            for start in range(0, len(page.executions), BATCH):
                batch = page.executions[start : start + BATCH]
                self._count("results", await sweep.results(batch, before, at - beyond))
                await asyncio.sleep(REST_S)
            offset, again = page.next, bool(page.next)
        self._end("results", sweep.families)

    async def rows(self, now: Policy) -> None:
        """From the first one that something kept in the pass before, for all before it are gone."""
        at = self._clock.now()
        before = datetime.fromtimestamp(at - now.kept.read_model, UTC)
        if at - self._began >= FULL_S:
            self._from, self._began = Place(), at
        sweep, place = self._sweep(), self._from
        blocked: Place | None = None
        while True:
            kept = len(sweep.families.kept)
            after, removed = await sweep.rows(place, before)
            self._count("rows", removed)
            if len(sweep.families.kept) > kept:
                blocked = blocked or place
            if after is None:
                break
            place = after
            await asyncio.sleep(REST_S)
        self._from = blocked or place
        self._end("rows", sweep.families)

    def _sweep(self) -> Sweep:
        return Sweep(self._bus, self._database, self._settings.partitions, Families())

    def _count(self, what: str, removed: int) -> None:
        self.told.removed[what] = self.told.removed.get(what, 0) + removed

    def _end(self, what: str, families: Families) -> None:
        self._count(what, 0)
        self.told.kept[what] = len(families.kept)
        self.told.passed[what] = self._clock.now()
