"""What a parent that waits is told: that its child is over, and how."""

from shared.engine.routing.state import Execution, is_over
from shared.events import model as ev
from shared.events.note import Note
from shared.events.outcome import Result


def parent_notes(state: Execution) -> list[Note]:
    """The note to the parent that waits for this execution, once it is over; most have none."""
    parent = state.parent
    if parent is None or parent.detached or not is_over(state):
        return []
    assert state.status in ("completed", "failed", "cancelled")
    wanted = state.results.get(parent.returns) if parent.returns else state.result
    ended = ev.ChildEnded(
        parent.run_id, parent.wait, state.execution_id, state.status, parent.index,
        wanted or Result(), state.error,
    )
    return [Note(parent.execution_id, state.execution_id, ended)]
