"""The engine's side of the claim of a frame of rows: its name, what it sees, and which rows it may return."""

from typing import Any

import msgspec

from shared.engine.scheduling.loops import MAX_ITEM_BYTES
from shared.engine.values.scope import visible
from shared.engine.values.stored_values import Values, resolve_scope
from shared.events.command import Command
from shared.events.failure import LIMIT, LOOP
from shared.events.outcome import Outcome, failed
from shared.events.run_index import frame_of


def id_of(command: Command) -> str:
    """The same however often the frame is claimed."""
    return f"{command.execution_id}/{command.run_id}/{frame_of(command.index)}"


def names(command: Command, values: Values) -> dict[str, Any]:
    """What the query sees."""
    scope = resolve_scope(command.scope, command.scope_ref, values)
    claim = {"id": id_of(command), "size": command.count, "frame": frame_of(command.index)}
    return visible(command.execution_id, scope, command.args, claim=claim)


def misfit(result: Any, size: int) -> Outcome | None:
    """Why the rows of a claim cannot be the elements of a loop."""
    rows = result["rows"]
    if not result["columns"] and result["row_count"]:
        return failed(LOOP, "loop.cursor: the claim returns no rows; add RETURNING")
    if len(rows) > size:
        return failed(LIMIT, f"loop.cursor: the claim returned {len(rows)} rows, over {size}: add "
                      "LIMIT {{ claim.size }}")
    largest = max((len(msgspec.json.encode(row)) for row in rows), default=0)
    if largest > MAX_ITEM_BYTES:
        return failed(LIMIT, f"loop.cursor: a row of {largest} bytes is over {MAX_ITEM_BYTES}: return its key")
    return None
