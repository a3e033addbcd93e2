"""The one way to issue a command a second time: exactly the message that is lost is deleted from the queue, and the
command is published again, not fresh, under an id made of that message. So two schedulers that do this at once issue it
once, and whoever still holds the lost message is fenced: the new one has a higher epoch.
"""

import asyncio
from collections.abc import Callable, Sequence

from services.scheduler.publisher import subject_of
from shared.bus import topology
from shared.bus.ports import Bus
from shared.events.command import Command

AT_ONCE = 32
Lost = tuple[Command, int]  # with the sequence of its message; 0: it should not be in the queue at all


class Again:
    """`send(command, sequence)` publishes in place of that message."""

    def __init__(self, bus: Bus, send: Callable[[Command, int], None]) -> None:
        self._bus, self._send = bus, send
        self.count = 0

    async def issue(self, lost: Sequence[Lost]) -> int:
        """Returns how many were issued: a run that is in the queue as another message is not lost."""
        count = 0
        for first in range(0, len(lost), AT_ONCE):
            count += sum(await asyncio.gather(*(self._issue(*each) for each in lost[first : first + AT_ONCE])))
        return count

    async def _issue(self, command: Command, seq: int) -> bool:
        found = await self._bus.find(topology.COMMANDS, subject_of(command))
        if found is not None and found.seq != seq:
            return False
        if found is not None:
            await self._bus.delete(topology.COMMANDS, seq)
        self._send(command, seq)
        self.count += 1
        return True
