"""How large a family may grow: an execution and all that descend from it (`kind: playbook`).

A playbook that starts itself a thousand times, each of which does so again, would take all memory there is. So a family
has a bound; beyond it, a child that is requested fails at once, and its parent learns why. The size is counted from the
states in memory each time: a number that is kept would be wrong after the first end that was missed.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from shared.bus.ports import Clock
from shared.engine.scheduling.state import Schedule
from shared.events.request import Request

MAX_FAMILY = 100_000  # executions, runs and iterations of one root that are live at the same time
COUNT_S = 1.0  # a count is used for this long,
COUNT_EVERY = 32  # and for this many children: each may begin a wide loop


class Families:
    """`live` are the executions that this scheduler looks after, `share` their part of all."""

    def __init__(self, clock: Clock, live: Callable[[], Iterable[Schedule]], share: Callable[[], float]) -> None:
        self._clock, self._live, self._share = clock, live, share
        self._sizes = Counter[str]()
        self._at, self._asked = float("-inf"), 0

    def admit(self, request: Request) -> Request:
        """The request for a child as it goes to the router: over the bound, with the reason why not."""
        parent = request.parent
        assert parent is not None
        root = parent.root or parent.execution_id
        self._asked += 1
        if self._asked > COUNT_EVERY or abs(self._clock.now() - self._at) > COUNT_S:
            self._count()
        self._sizes[root] += 1
        if self._sizes[root] <= max(1.0, MAX_FAMILY * self._share()):
            return request
        return replace(request, refused=(
            f"execution {root} and its descendants have over {MAX_FAMILY} executions, runs and iterations under way: "
            f"does {request.path} start itself?"
        ))

    def _count(self) -> None:
        self._at, self._asked = self._clock.now(), 1
        self._sizes = Counter()
        for state in self._live():
            self._sizes[state.root or state.execution_id] += weight(state)


def weight(state: Schedule) -> int:
    return 1 + len(state.runs) + sum(len(loop.live) for loop in state.loops.values())
