"""Which commands go to a pool's queue next, when more are due than its workers can begin.

An execution and all that descend from it (`kind: playbook`) are one family, named by its root: what a family may have
under way does not grow with the number of children it starts.

1. Every family gets a first command under way before any family of the same priority gets a further one, so one with a
   single step never waits behind a wide loop. `most` bounds everything that is under way, and with it how many families
   have their first; the others wait for theirs in turn.
2. Beyond the first of each, as many are under way as the workers say they have room for (`Beat.room`), shared evenly:
   the family that has the fewest gets the next, and in it the execution that has the fewest.
3. A higher priority goes first in all of this. A lower one waits for as long as there is enough work of a higher one.

A command is under way from its release here until the log says that its run has ended or waits. What is held back is in
memory only: it follows from the log, and whoever loads the execution offers it again.

4. While nobody is held back and there is room, nobody has to be ranked: whoever comes goes at once (`passes`), in the
   order in which they come. That is the order they would be released in.

Ranks are kept in heaps. A new rank takes the place of the old one if that is at the top, else it is pushed, and the old
entry stays where it is; `rank` of a lane or family is the one valid entry, and `_best` drops the others when they come
up. That keeps every operation logarithmic. A rank matters only when the next one is looked for: until then, what has
`_changed` is only written down, once for many reports about the same loop.
"""

import heapq
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from shared.events.beat import Key

T = TypeVar("T")
Rank = tuple[int, int, int, str]  # the lowest is next: negated priority, how many under way, turn, execution or root


class Lane(Generic[T]):
    """One execution in one pool."""

    __slots__ = ("family", "held", "priority", "rank", "under_way")

    def __init__(self, family: "Family") -> None:
        self.family = family
        self.priority = 0
        self.held: deque[tuple[Key, T]] = deque()
        self.under_way: set[Key] = set()
        self.rank: Rank | None = None  # its valid entry in the family's order


class Family:
    """Executions of one root in one pool."""

    __slots__ = ("lanes", "order", "rank", "root", "under_way")

    def __init__(self, root: str) -> None:
        self.root = root
        self.lanes = 0
        self.under_way = 0
        self.order: list[Rank] = []
        self.rank: Rank | None = None  # its valid entry in one of the heaps


class Fair(Generic[T]):
    def __init__(self) -> None:
        self._lanes: dict[str, Lane[T]] = {}
        self._families: dict[str, Family] = {}
        self._first: list[Rank] = []
        self._more: list[Rank] = []
        self._held: set[Key] = set()
        self._changed: dict[str, Lane[T]] = {}
        self._turn = 0
        self._under_way = 0
        self._extra = 0
        self.ended = 0

    @property
    def is_holding(self) -> bool:
        return bool(self._held)

    @property
    def held(self) -> int:
        return len(self._held)

    @property
    def under_way(self) -> int:
        return self._under_way

    @property
    def turns(self) -> int:
        """How many were released so far."""
        return self._turn

    def next_of_each(self) -> Iterator[T]:
        """What each execution that is held back waits with."""
        return (lane.held[0][1] for lane in self._lanes.values() if lane.held)

    def passes(self, key: Key, root: str, most: int, room: int) -> bool:
        """Whether it may go at once: it is under way already; or it is from now on, since nobody is held back and the
        bounds (of `released`) leave room."""
        execution_id = key[0]
        lane = self._lanes.get(execution_id)
        if lane is not None and key in lane.under_way:
            return True
        if self._held or self._under_way >= most:
            return False
        family = self._families.get(root or execution_id) if lane is None else lane.family
        if family is not None and family.under_way:
            if self._extra >= room:
                return False
            self._extra += 1
        if lane is None:
            lane = self._new_lane(execution_id, root or execution_id)
        self._under_way += 1
        lane.family.under_way += 1
        lane.under_way.add(key)
        self._turn += 1
        return True

    def offer(self, key: Key, item: T, priority: int, root: str = "") -> bool:
        """False if it is known already, held back or under way. Without a root, the execution is its own root."""
        lane = self._lanes.get(key[0])
        if lane is None:
            lane = self._new_lane(key[0], root or key[0])
        if key in self._held or key in lane.under_way:
            return False
        lane.held.append((key, item))
        self._held.add(key)
        if lane.rank is None or lane.priority != priority:
            lane.priority = priority
            self._changed[key[0]] = lane
        return True

    def is_held(self, key: Key) -> bool:
        return key in self._held

    def released(self, most: int, room: int) -> Iterator[T]:
        """What goes out now. `most` bounds everything under way, `room` what goes beyond the first of each family."""
        while (family := self._next(most, room)) is not None:
            lane = self._lanes[family.order[0][3]]
            key, item = lane.held.popleft()
            self._held.discard(key)
            self._extra += bool(family.under_way)
            self._under_way += 1
            family.under_way += 1
            lane.under_way.add(key)
            self._turn += 1
            self._changed[key[0]] = lane
            yield item

    def free(self, execution_id: str, run_id: str = "", index: int | None = None) -> None:
        """The iteration, the run with all its iterations, or everything of the execution has ended or waits."""
        lane = self._lanes.get(execution_id)
        if lane is None:
            return
        self.ended += 1
        if run_id and index is not None:
            self._drop(execution_id, lane, ((execution_id, run_id, index),))
        else:
            self._drop(execution_id, lane, [key for key in _known(lane) if not run_id or key[1] == run_id])

    def keep(self, due: Callable[[Key], bool]) -> None:
        """Forgets what is no longer due."""
        for execution_id, lane in self._lanes.items():
            self._drop(execution_id, lane, [key for key in _known(lane) if not due(key)])

    def settle(self) -> None:
        """Ranks what has changed, and forgets the executions of which there is nothing now."""
        for execution_id, lane in self._changed.items():
            family = lane.family
            if lane.held or lane.under_way:
                if lane.held or lane.rank is not None:
                    self._rank_lane(execution_id, lane)
            elif self._lanes.pop(execution_id, None) is not None:
                lane.rank = None
                family.lanes -= 1
                if not family.lanes:
                    del self._families[family.root]
                    continue
            if family.order or family.rank is not None:
                self._rank_family(family)
        self._changed.clear()

    def _new_lane(self, execution_id: str, root: str) -> Lane[T]:
        family = self._families.get(root)
        if family is None:
            family = self._families[root] = Family(root)
        family.lanes += 1
        lane: Lane[T] = Lane(family)
        self._lanes[execution_id] = lane
        return lane

    def _drop(self, execution_id: str, lane: Lane[T], gone: Collection[Key]) -> None:
        if lane.held and (held := self._held.intersection(gone)):
            self._held -= held
            lane.held = deque(entry for entry in lane.held if entry[0] not in held)
        ended, family = 0, lane.family
        for key in gone:
            if key in lane.under_way:
                lane.under_way.remove(key)
                ended += 1
        if ended:
            self._extra -= min(ended, family.under_way - 1)
            family.under_way -= ended
            self._under_way -= ended
        self._changed[execution_id] = lane

    def _rank_lane(self, execution_id: str, lane: Lane[T]) -> None:
        """By what it has now."""
        order, before = lane.family.order, lane.rank
        lane.rank = (-lane.priority, len(lane.under_way), self._turn, execution_id) if lane.held else None
        _instead(order, before, lane.rank)

    def _rank_family(self, family: Family) -> None:
        """By what it has now, and by its first lane."""
        before, family.rank = family.rank, None
        if _best(family.order, self._lanes) is not None:
            family.rank = (family.order[0][0], family.under_way, self._turn, family.root)
        _instead(self._more if family.under_way else self._first, before, family.rank)

    def _next(self, most: int, room: int) -> Family | None:
        if self._changed:
            self.settle()
        if self._under_way >= most or not self._held:
            return None
        first = _best(self._first, self._families) if self._first else None
        if self._extra < room:
            more = _best(self._more, self._families) if self._more else None
            if more is not None and (first is None or self._more[0] < self._first[0]):
                return more
        return first


def _known(lane: Lane[T]) -> Iterable[Key]:
    """What the lane has, under way or held back."""
    return (*lane.under_way, *(key for key, _ in lane.held)) if lane.held else lane.under_way


def _instead(heap: list[Rank], before: Rank | None, rank: Rank | None) -> None:
    """The new rank in place of the one before, if that is at the top; the other way it is found there later."""
    is_top = before is not None and heap and heap[0] is before
    if rank is not None:
        if is_top:
            heapq.heapreplace(heap, rank)
        else:
            heapq.heappush(heap, rank)
    elif is_top:
        heapq.heappop(heap)


R = TypeVar("R", Family, Lane)  # type: ignore[type-arg]


def _best(heap: list[Rank], known: Mapping[str, R]) -> R | None:
    """The owner of the first valid entry, which is then at the top of the heap."""
    while heap:
        top = heap[0]
        found = known.get(top[3])
        if found is not None and found.rank is top:
            return found
        heapq.heappop(heap)
    return None
