"""Which commands go to a pool's queue next, when more are due than its workers can begin.

1. Every execution has at least one command under way, whatever the others do: nothing starves.
2. Beyond the first of each, as many are under way as the workers say they have room for (`Beat.room`); they are
   shared evenly: who has the fewest gets the next.
3. A higher priority goes first, in both.
A command is under way from here until the log says that its run has ended or waits. What is held back is in memory
only: it follows from the log, and whoever loads the execution offers it again.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from shared.events.beat import Key

T = TypeVar("T")
Rank = tuple[int, int, int, str]  # priority (the highest first), how many are under way, turn, execution


class Lane(Generic[T]):
    """One execution in one pool."""

    __slots__ = ("held", "priority", "rank", "under_way")

    def __init__(self) -> None:
        self.priority = 0
        self.held: deque[tuple[Key, T]] = deque()
        self.under_way: set[Key] = set()
        self.rank: Rank | None = None  # its valid place in a heap


class Fair(Generic[T]):
    def __init__(self) -> None:
        self._lanes: dict[str, Lane[T]] = {}
        self._first: list[Rank] = []
        self._more: list[Rank] = []
        self._held: set[Key] = set()
        self._turn = 0
        self._under_way = 0
        self._extra = 0
        self.ended = 0

    @property
    def is_holding(self) -> bool:
        return bool(self._held)

    def offer(self, key: Key, item: T, priority: int) -> bool:
        """False when it is there already: held back, or under way."""
        lane = self._lanes.setdefault(key[0], Lane())
        if key in self._held or key in lane.under_way:
            return False
        lane.priority = priority
        lane.held.append((key, item))
        self._held.add(key)
        self._place(key[0], lane)
        return True

    def is_under_way(self, key: Key) -> bool:
        lane = self._lanes.get(key[0])
        return lane is not None and key in lane.under_way

    def released(self, most: int, room: int) -> Iterator[T]:
        """What goes out now. `most` bounds everything under way, `room` what is beyond the first of each execution."""
        while (lane := self._next(most, room)) is not None:
            key, item = lane.held.popleft()
            self._held.discard(key)
            self._extra += bool(lane.under_way)
            self._under_way += 1
            lane.under_way.add(key)
            self._turn += 1
            self._place(key[0], lane)
            yield item

    def free(self, execution_id: str, run_id: str = "", index: int | None = None) -> None:
        """A run has ended or waits, all iterations of it, or everything of the execution."""
        lane = self._lanes.get(execution_id)
        if lane is None:
            return
        self.ended += 1
        if run_id and index is not None:
            self._drop(execution_id, lane, [(execution_id, run_id, index)])
        else:
            known = [*lane.under_way, *(key for key, _ in lane.held)]
            self._drop(execution_id, lane, [key for key in known if not run_id or key[1] == run_id])

    def keep(self, due: Callable[[Key], bool]) -> None:
        """Forgets what is not due any more."""
        for execution_id, lane in list(self._lanes.items()):
            known = [*lane.under_way, *(key for key, _ in lane.held)]
            self._drop(execution_id, lane, [key for key in known if not due(key)])

    def _drop(self, execution_id: str, lane: Lane[T], keys: Iterable[Key]) -> None:
        gone = set(keys)
        held = gone & self._held
        if held:
            self._held -= held
            lane.held = deque(entry for entry in lane.held if entry[0] not in held)
        before = len(lane.under_way)
        lane.under_way -= gone
        after = len(lane.under_way)
        self._under_way -= before - after
        self._extra -= max(0, before - 1) - max(0, after - 1)
        if lane.held:
            self._place(execution_id, lane)
        elif not lane.under_way:
            del self._lanes[execution_id]

    def _place(self, execution_id: str, lane: Lane[T]) -> None:
        """Puts the lane where it belongs now; what was pushed before is not valid any more."""
        lane.rank = None
        if lane.held:
            lane.rank = (-lane.priority, len(lane.under_way), self._turn, execution_id)
            heapq.heappush(self._more if lane.under_way else self._first, lane.rank)

    def _next(self, most: int, room: int) -> Lane[T] | None:
        if self._under_way >= most or not self._held:
            return None
        best = self._best(self._first)
        if self._extra < room:
            more = self._best(self._more)
            if more is not None and (best is None or more < best):
                best = more
        return self._lanes[best[3]] if best is not None else None

    def _best(self, heap: list[Rank]) -> Rank | None:
        while heap:
            lane = self._lanes.get(heap[0][3])
            if lane is not None and lane.rank == heap[0]:
                return heap[0]
            heapq.heappop(heap)
        return None
