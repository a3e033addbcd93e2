"""Whether the broker has room for new executions. When its store is nearly full they are refused, so that those that
run can write up to their end. Only a limit of the account can be seen from here; without one, the broker's own refusal
is what remains."""

import structlog

from shared.bus.ports import Bus, Clock, Storage
from shared.errors import NoetlError

EVERY_S = 5.0
MARGIN_SHARE = 0.10  # of the limit is kept for executions that run,
MOST_MARGIN = 256 * 1024 * 1024  # but no more than this
MIB = 1024 * 1024

log = structlog.get_logger()


def margin(limit: int) -> int:
    return min(int(limit * MARGIN_SHARE), MOST_MARGIN)


class Room:
    """`full` says why there is none, or nothing; `found` is what was seen last."""

    def __init__(self) -> None:
        self.full = ""
        self.found: Storage | None = None

    def why_not(self) -> str:
        return self.full

    async def watch(self, bus: Bus, clock: Clock) -> None:
        """For ever; cancel to stop."""
        while True:
            try:
                self.note(await bus.storage())
            except NoetlError as error:
                log.warning("room.waits", error=str(error))
            await clock.sleep(EVERY_S)

    def note(self, found: Storage) -> None:
        full, self.found = "", found
        if found.limit and found.limit - found.used < margin(found.limit):
            full = (
                f"the broker's store is nearly full: {found.used // MIB} of {found.limit // MIB} MiB are used, and new "
                "executions are refused until there is room"
            )
        if full and not self.full:
            log.error("room.full", error=full)
        elif self.full and not full:
            log.info("room.there", used=found.used, limit=found.limit)
        self.full = full
