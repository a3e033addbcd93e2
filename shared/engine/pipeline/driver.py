"""How an interpreter and a machine take turns, the same for the worker, which awaits what it does, and for a rehearsal,
which yields the times at which it continues:

    with Driver(steps) as driver:
        for effect in driver:
            try:
                driver.answer = …  # what comes of the effect
            except Exception as error:
                driver.fail(error)
    return driver.ended
"""

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from shared.engine.pipeline.effects import Effect, Steps

T = TypeVar("T")


class Driver(Generic[T]):
    """Iterates over the effects of a machine; between two of them, `answer` or `fail` says what came of the first.
    `ended` is what comes of the machine, once there are no more. Whoever leaves early leaves the machine where it
    stands, closed."""

    __slots__ = ("_error", "_steps", "answer", "ended")
    ended: T

    def __init__(self, steps: Steps[T]) -> None:
        self._steps = steps
        self._error: Exception | None = None
        self.answer: Any = None

    def fail(self, error: Exception) -> None:
        """The effect did not come off: that is raised in the machine, where it was asked for."""
        self._error = error

    def __enter__(self) -> "Driver[T]":
        return self

    def __exit__(self, *_: object) -> None:
        self._steps.close()

    def __iter__(self) -> Iterator[Effect]:
        send = self._steps.send
        try:
            effect = next(self._steps)
            while True:
                yield effect
                if self._error is None:
                    effect = send(self.answer)
                else:
                    error, self._error = self._error, None
                    effect = self._steps.throw(error)
        except StopIteration as end:
            self.ended = end.value
