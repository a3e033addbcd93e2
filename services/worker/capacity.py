"""How many commands a worker wants under way: enough to fill its slots with calls, and no more in front of others
than it gets through at once.

Alone, an execution may have all there is. As soon as there are others, what is beyond the calls that run only
delays them: a loop of short tasks would fill every queue on the path, and the next execution would wait for
all of it.
"""

import math

LOOK_S = 0.1
SEEN_LOOKS = 5  # an execution counts as present for five to ten looks after its last command
POLITE = 4
GROWTH = 1.5


class Room:
    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._seen: set[str] = set()
        self._before: set[str] = set()
        self._looks = 0
        self.size = self._alone

    @property
    def _alone(self) -> int:
        """Twice the slots: the next ones are already there when a run ends."""
        return 2 * self._slots

    def took(self, execution_id: str) -> None:
        self._seen.add(execution_id)

    @property
    def is_quiet(self) -> bool:
        return not self._seen and not self._before

    def look(self, calls: int) -> bool:
        """Every LOOK_S, with the number of tool calls that run; whether `size` is now something else."""
        self._looks += 1
        shared = len(self._seen | self._before) > 1
        if self._looks % SEEN_LOOKS == 0:
            self._before, self._seen = self._seen, set()
        wanted = min(self._alone, POLITE + math.ceil(GROWTH * calls)) if shared else self._alone
        if 0.75 * self.size <= wanted <= 1.25 * self.size and wanted not in (self._alone, POLITE):
            return False
        changed, self.size = wanted != self.size, wanted
        return changed
