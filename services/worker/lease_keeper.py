"""Keeps the leases of a worker, and finds out as soon as it can which of them are another's.

Leases are extended every third of their time, at once after an absence, and again when the broker has answered: an
absence is noticed while it lasts, and what is sent then may be lost. What was held in one is looked up in the log, and
so is a run of which another worker says that it has claimed it: if that is true, the call under way is cut short.
"""

import asyncio
from collections.abc import Mapping

import structlog

from services.worker.hold import SETTLE_S, Around, Hold
from shared.bus import topology
from shared.engine.pipeline.ownership import Fenced
from shared.errors import Corrupt, NoetlError
from shared.events import claim as claims
from shared.events import subjects
from shared.events.beat import Key
from shared.runtime.service.listener import listen

log = structlog.get_logger()
TICK_S = 0.5
EXTEND_S = topology.COMMAND_LEASE_S / 3
LOOK_AGAIN_S = 0.5  # at most one look per run in this time, whatever others say
LOOK_TRIES = 5
LOOKS = 8  # at a time


class Minding:
    def __init__(self, around: Around, holds: Mapping[Key, Hold]) -> None:
        self._around, self._holds = around, holds
        self._now = asyncio.get_running_loop().time
        self._looks: dict[Key, asyncio.Task[None]] = {}
        self._few = asyncio.Semaphore(LOOKS)

    async def extend(self) -> None:
        presence = self._around.presence
        seen, returns, last = presence.absences(), presence.returns, self._now()
        while True:
            await self._around.clock.sleep(TICK_S)
            for hold in list(self._holds.values()):
                await hold.say_claimed_again()
            absences = presence.absences()
            if absences == seen and returns == presence.returns and self._now() - last < EXTEND_S:
                continue
            last, returns = self._now(), presence.returns
            for hold in list(self._holds.values()):
                await hold.progress()
                if absences != seen:
                    self.look(hold, SETTLE_S)
            seen = absences

    async def hear(self) -> None:
        """Which runs others have claimed."""
        await listen(self._around.bus, subjects.claims(self._around.pool), self._claimed)

    def _claimed(self, data: bytes) -> None:
        try:
            claim = claims.decode(data)
        except Corrupt as error:
            log.error("claim.corrupt", error=str(error))
            return
        hold = self._holds.get((claim.execution_id, claim.run_id, claim.index))
        if hold is not None and claim.epoch > hold.epoch:  # our own are not above what we hold
            hold.doubt = True
            self.look(hold)

    def look(self, hold: Hold, pause: float = 0.0) -> None:
        """Soon, and not more often than once in LOOK_AGAIN_S."""
        if hold.key in self._looks:
            return
        pause = max(pause, hold.looked + LOOK_AGAIN_S - self._now())
        task = self._looks[hold.key] = asyncio.create_task(self._look(hold, pause))
        task.add_done_callback(lambda _: self._looks.pop(hold.key))

    async def _look(self, hold: Hold, pause: float) -> None:
        for _ in range(LOOK_TRIES):
            if pause > 0:
                await self._around.clock.sleep(pause)
            run, pause, hold.looked = hold.run, LOOK_AGAIN_S, self._now()
            if run is None or self._holds.get(hold.key) is not hold:
                return
            try:
                async with self._few:
                    await run.look()
                return
            except Fenced as fenced:
                if hold.run is run:
                    hold.fence(fenced)
                return
            except NoetlError as error:
                log.warning("look.later", execution_id=hold.key[0], run_id=hold.key[1], error=str(error))

    async def close(self) -> None:
        looks = list(self._looks.values())
        for task in looks:
            task.cancel()
        await asyncio.gather(*looks, return_exceptions=True)
