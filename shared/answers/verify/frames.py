"""The frames of a loop with a cursor: one at a time, in order, each answered once."""

from collections.abc import Iterator

from shared.answers.history.history import History, Key
from shared.events import model as ev
from shared.events.run_index import frame_of, of_frame


class Frames:
    """Of one loop-run, which started with this many rows."""

    def __init__(self, taken: int) -> None:
        self._claimed, self._counted, self._asked = taken, 0, 0

    def start(self, history: History, run_id: str, as_of: int, frame: int) -> Iterator[str]:
        if frame != self._asked:
            yield f"loop {run_id} claims frame {frame} after {self._asked} frames"
        elif frame and not isinstance(_answer(history, run_id, frame - 1, as_of), ev.FrameClaimed):
            yield f"loop {run_id} claims frame {frame} before the one before it is there"
        elif self.is_dry(history, run_id, as_of):
            yield f"loop {run_id} claims frame {frame} after its last one"
        self._asked = max(self._asked, frame + 1)

    def has(self, index: int) -> bool:
        return frame_of(index) < self._asked

    def claimed(self, history: History, run_id: str, as_of: int) -> int:
        """As of a decision; it is asked about one after the other."""
        while self._counted < self._asked:
            found = _answer(history, run_id, self._counted, as_of)
            if not isinstance(found, ev.FrameClaimed):
                break
            self._claimed, self._counted = self._claimed + found.count, self._counted + 1
        return self._claimed

    def is_dry(self, history: History, run_id: str, as_of: int) -> bool:
        last = _answer(history, run_id, self._asked - 1, as_of) if self._asked else None
        return isinstance(last, ev.FrameClaimed) and last.count == 0


def _answer(history: History, run_id: str, frame: int, as_of: int) -> ev.Event | None:
    held = history.held.get(Key(run_id, of_frame(frame)))
    return held.terminal if held is not None and 0 < held.end <= as_of else None
