"""What a loop takes over from an earlier execution of it that did not finish: the elements, the results of the
iterations that succeeded, and which iterations are still to be done. It keeps the numbering, so that an iteration can
be found again by its index; windows skip what is done.
"""

from bisect import bisect_left
from typing import Any

from shared.engine.values.stored_values import Values, value_of
from shared.events import model as ev


class Todo:
    """The iterations that a loop has to run: all of them; or, of the first `known`, only those `listed` (in order), and
    all after them."""

    def __init__(self, listed: list[int] | None = None, known: int = 0) -> None:
        self._listed, self._known = listed or [], known if listed is not None else 0

    def below(self, last: int) -> int:
        """How many there are before the iteration `last`."""
        return bisect_left(self._listed, min(last, self._known)) + max(0, last - self._known)

    def __contains__(self, index: int) -> bool:
        if index >= self._known:
            return True
        place = bisect_left(self._listed, index)
        return place < len(self._listed) and self._listed[place] == index

    def span(self, first: int, last: int, room: int) -> tuple[int, int] | None:
        """The next consecutive iterations to run: the first of them and how many, at most `room`."""
        place = bisect_left(self._listed, first)
        if place == len(self._listed):
            start = max(first, self._known)
            return (start, min(room, last - start)) if start < last else None
        start = self._listed[place]
        if start >= last:
            return None
        count = 1
        while count < room and start + count < last and start + count in self:
            count += 1
        return start, count


EVERY = Todo()


def todo(taken: ev.Taken | None, values: Values) -> Todo:
    if taken is None:
        return EVERY
    return Todo(taken.todo if taken.todo_ref is None else value_of(taken.todo_ref, values), taken.count)


def results(taken: ev.Taken | None, values: Values) -> list[Any]:
    """As they are in the results of a loop: values and references; null where there is none."""
    if taken is None:
        return []
    found: list[Any] = taken.results if taken.results_ref is None else value_of(taken.results_ref, values)
    return found
