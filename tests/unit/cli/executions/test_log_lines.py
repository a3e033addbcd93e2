"""What `noetlctl logs` says of loops."""

import pytest

from services.cli.executions.log_lines import said
from shared.events import model as ev

TAKEN = ev.Taken("abc", 5, 3)


@pytest.mark.parametrize(("event", "text"), [
    (ev.LoopStarted("r", "s", 5), "loop of 5"),
    (ev.LoopStarted("r", "s", 5, local=True), "loop of 5, all on one worker"),
    (ev.LoopStarted("r", "s", 5, taken=TAKEN), "loop of 5, 3 of 5 done by execution abc"),
    (ev.LoopStarted("r", "s", 0, frame=40), "loop of rows, 40 at a time"),
    (ev.FrameClaimed(7), "claimed 7 rows"),
    (ev.FrameClaimed(), "nothing left to claim"),
    (ev.FrameFailed({"kind": "postgres", "message": "no such table"}), "failed: postgres: no such table"),
])
def test_a_loop_is_told_in_words(event: ev.Event, text: str) -> None:
    assert said(event) == text
