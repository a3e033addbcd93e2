"""Runs that are to stop: their commands are deleted from the queue, and their workers are notified. That is done more
than once, because a message without a stream may get lost."""

import msgspec
import structlog

from shared.bus import topology
from shared.bus.ports import Bus, Clock
from shared.errors import NoetlError
from shared.events import subjects
from shared.events.command import Command
from shared.events.stop import Stop
from shared.runtime.service.background import Tasks

log = structlog.get_logger()
AGAIN_S = (0.3, 1.0, 3.0, 6.0)
PAUSE_AGAIN_S = (0.3, 1.0)  # not for long: the pause may be over by then
MAX_REMOVED = 1000  # commands of one run at a time; the rest is removed at the next repetition
REMEMBER_S = 60.0  # a command that was on its way when its run was stopped is not published


class Stops:
    def __init__(self, bus: Bus, clock: Clock) -> None:
        self._bus, self._clock = bus, clock
        self._stopped: dict[tuple[str, str], float] = {}
        self._tasks = Tasks()

    def is_stopped(self, command: Command) -> bool:
        return bool(self._stopped) and (command.execution_id, command.run_id) in self._stopped

    async def say(self, stop: Stop) -> None:
        if not stop.pause:
            self._remember(stop)
        self._tasks.start(self._again(stop))

    def _remember(self, stop: Stop) -> None:
        now = self._clock.now()
        self._stopped = {key: at for key, at in self._stopped.items() if now - at < REMEMBER_S}
        self._stopped[stop.execution_id, stop.run_id] = now

    async def _again(self, stop: Stop) -> None:
        """The command of a loop that pauses stays: whoever holds it finishes what is in flight first."""
        for pause in (0.0, *(PAUSE_AGAIN_S if stop.pause else AGAIN_S)):
            if pause:
                await self._clock.sleep(pause)
            try:
                if not stop.pause:
                    await self._remove(stop)
                await self._bus.publish(subjects.stops(stop.pool), msgspec.json.encode(stop))
            except NoetlError as error:
                log.warning("stop.waits", execution_id=stop.execution_id, run_id=stop.run_id, error=str(error))

    async def _remove(self, stop: Stop) -> None:
        """One message after the other: a purge by subject would lose what workers hold of other runs."""
        for subject in subjects.commands_for(stop.pool, stop.execution_id, stop.run_id):
            after = 0
            for _ in range(MAX_REMOVED):
                found = await self._bus.find(topology.COMMANDS, subject, after)
                if found is None:
                    break
                after = found.seq
                await self._bus.delete(topology.COMMANDS, after)

    async def close(self) -> None:
        await self._tasks.stop()
