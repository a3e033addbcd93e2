"""Brings what the turn of an execution lacks: its state, plans, stored values."""

from collections.abc import Callable
from typing import Generic, TypeVar

import structlog

from shared.engine.core import Outgoing, S
from shared.errors import Corrupt, NoetlError, Refused
from shared.runtime.control.actor import Actor
from shared.runtime.control.horizon import Horizon
from shared.runtime.control.load_pacing import pause_s
from shared.runtime.control.loader import Loader
from shared.runtime.control.recovery import Recovery
from shared.runtime.control.set_aside import why
from shared.runtime.control.surroundings import Surroundings
from shared.runtime.control.turn import Ready, made_ready
from shared.runtime.stores import results

log = structlog.get_logger()
T = TypeVar("T")


class Preparing(Generic[S]):
    def __init__(self, around: Surroundings[S], loader: Loader[S], horizon: Horizon, recovery: Recovery) -> None:
        self._bus, self._clock, self._plans, self._core = around.bus, around.clock, around.plans, around.core
        self._drafting = around.drafting
        self._loads, self._loader, self._horizon, self._recovery = around.loads, loader, horizon, recovery

    async def run(self, actor: Actor[S], before: Ready[S] | None) -> Ready[S] | Exception | None:
        """The actor's turn, if nothing is missing; or why the execution cannot continue. That is so if it does not
        work from the log alone either. `before` is a turn whose large values have to be stored first."""
        tries = 0
        while not actor.aside:
            try:
                return await self._once(actor, before)
            except Refused as error:
                return error
            except NoetlError as error:
                if not isinstance(error, Corrupt):
                    tries += 1
                    pause = round(pause_s(actor.execution_id, tries), 3)
                    log.warning("execution.waits", execution_id=actor.execution_id, error=str(error), pause=pause)
                    self._recovery.tried(actor.execution_id)
                    await self._clock.sleep(pause)
                elif self._gives_up(actor, error):
                    return error
            except Exception as error:
                if self._gives_up(actor, error):
                    return error
        return None

    def _gives_up(self, actor: Actor[S], error: Exception) -> bool:
        if actor.whole:
            return True
        log.warning("execution.stumbled", execution_id=actor.execution_id, reason=why(error))
        actor.whole, actor.state = True, None
        return False

    async def _once(self, actor: Actor[S], before: Ready[S] | None) -> Ready[S] | None:
        blobs = before.turn.blobs if before is not None else {}
        async with self._loads.place(actor.execution_id, news=bool(actor.inbox or actor.carried)):
            await results.store(self._bus, actor.execution_id, blobs)
            actor.stored.update(blobs)
            if actor.state is None:
                await self._load(actor)
            return await self.brought(
                actor, lambda: made_ready(
                    self._core, actor, self._clock.now(), self._horizon.seq, before, self._drafting))

    async def _load(self, actor: Actor[S]) -> None:
        delivered = [*actor.carried, *(seq for seq, _ in actor.inbox)]
        state, actor.saved = await self._loader.load(actor.execution_id, delivered, whole=actor.whole)

        def recover() -> list[Outgoing]:
            with actor.pace.counting(self._clock.now()):
                return list(self._core.recover(state, actor.values))

        actor.due = await self.brought(actor, recover)
        actor.state = state

    async def brought(self, actor: Actor[S], work: Callable[[], T]) -> T:
        """The result of the work, once it has the plans and stored values that it asks for."""
        return await results.brought(self._bus, actor.values, work, self._plans)
