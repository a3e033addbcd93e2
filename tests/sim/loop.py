"""An asyncio loop whose time is not real: with nothing to do it jumps to its next timer."""

import asyncio
from asyncio import base_events
from typing import Any

EPOCH = 1_800_000_000.0  # what the clocks of the world say at the start


class Stuck(Exception):
    """Nothing is ready and no timer is set: the world would wait for ever."""


class _Jump:
    def __init__(self) -> None:
        self.now = 0.0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Stuck("no timer is set and nothing is ready")
        self.now += max(timeout, 0.0)
        return []

    def close(self) -> None:
        """Nothing to release."""


class VirtualLoop(base_events.BaseEventLoop):
    """Callbacks run in the order they became ready, so a world with the same seed runs the same."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Jump()
        self._clock_resolution = 1e-7
        self.set_exception_handler(lambda _loop, _context: None)

    def time(self) -> float:
        return self._selector.now

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list

    def _write_to_self(self) -> None:
        """Nobody waits on another thread."""


def now() -> float:
    return EPOCH + asyncio.get_running_loop().time()
