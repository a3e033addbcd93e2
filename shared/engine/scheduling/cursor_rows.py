"""The rows of a loop with a cursor, claimed in frames.

1. One frame at a time is requested (`loop.frame.started`), when fewer elements wait than may be in flight. A worker
   claims its rows in a transaction and appends them to the log (`loop.frame.claimed`) *before* it commits: committing
   first would lose the rows with the worker. The price is that a row may come again; none is lost.
2. The rows of a frame are the next elements, numbered on from those before. Nobody knows how many there will be.
3. A frame without rows is the last one. One that failed fails the step.
4. A report of a lower epoch changes nothing, and a frame is answered once: a second answer would number rows twice.
5. Rows are kept while one of them may still be sent to a worker or read by `stop_when`, so the state does not grow with
   the table.
"""

from bisect import bisect_right
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from shared.engine.leases.fence import NOBODY, is_outranked
from shared.engine.scheduling.nesting import MAX_ITERATIONS
from shared.engine.values.stored_values import Values, value_of
from shared.errors import Corrupt
from shared.events import model as ev
from shared.events.outcome import Ref
from shared.events.record import Epoch, Lease, Record
from shared.events.run_index import frame_of


class Frame(Struct, frozen=True, omit_defaults=True):
    """Rows that follow each other; `first` is the number of the first."""

    first: int
    count: int
    rows: list[Any] = []
    rows_ref: Ref | None = None


class Claims(Struct, frozen=True, omit_defaults=True):
    """`asked`: how many frames were requested. The last of them, of at most `size` rows, has no answer while `open`;
    `epoch` is that of the worker that claims it. `dry`: nothing was left to claim."""

    frames: tuple[Frame, ...] = ()
    claimed: int = 0
    asked: int = 0
    open: bool = False
    size: int = 0
    epoch: Epoch = NOBODY
    dry: bool = False
    error: dict[str, Any] | None = None


def begun(started: ev.LoopStarted) -> Claims | None:
    """The rows a loop starts with are those it takes over."""
    if not started.frame:
        return None
    taken = Frame(0, started.count, started.items, started.items_ref)
    return Claims((taken,), started.count) if started.count else Claims()


def asked(claims: Claims, event: ev.FrameStarted) -> Claims:
    return replace(claims, asked=event.frame + 1, open=True, size=event.size, epoch=NOBODY)


def fold(claims: Claims, record: Record, lease: Lease) -> Claims:
    if not claims.open or frame_of(lease.index) != claims.asked - 1 or is_outranked(lease, claims.epoch):
        return claims
    claims = replace(claims, epoch=lease.epoch)
    match record.events[-1]:
        case ev.FrameClaimed(count=0):
            return replace(claims, open=False, dry=True)
        case ev.FrameClaimed(count=count, rows=rows, rows_ref=ref):
            frame = Frame(claims.claimed, count, rows, ref)
            return replace(claims, open=False, frames=(*claims.frames, frame), claimed=claims.claimed + count)
        case ev.FrameFailed(error=error):
            return replace(claims, open=False, error=error)
    return claims


def pruned(claims: Claims, needed: int) -> Claims:
    """Without the rows before the iteration `needed`."""
    if not claims.frames or claims.frames[0].first + claims.frames[0].count > needed:
        return claims
    return replace(claims, frames=tuple(each for each in claims.frames if each.first + each.count > needed))


def wanted(claims: Claims, started: ev.LoopStarted, waiting: int) -> int:
    """How many rows to claim now, given how many are claimed and not started (`waiting`)."""
    if claims.open or claims.dry or waiting >= started.max_in_flight:
        return 0
    return min(started.frame, MAX_ITERATIONS - claims.claimed)


def is_full(claims: Claims) -> bool:
    """No more rows may be claimed, and there may be more."""
    return not claims.open and not claims.dry and claims.claimed >= MAX_ITERATIONS


def frame_at(claims: Claims, index: int) -> Frame:
    place = bisect_right(claims.frames, index, key=lambda frame: frame.first) - 1
    if not 0 <= place < len(claims.frames):
        raise Corrupt(f"iteration {index} runs for a row that nobody claimed")
    return claims.frames[place]


def row(claims: Claims, index: int, values: Values) -> Any:
    frame = frame_at(claims, index)
    rows = frame.rows if frame.rows_ref is None else value_of(frame.rows_ref, values)
    try:
        return rows[index - frame.first]
    except LookupError:
        raise Corrupt(f"iteration {index} runs for a row that nobody claimed") from None


def iteration(claims: Claims, iterator: str, index: int, values: Values) -> dict[str, Any]:
    """`iter` of a row. The total is not known: `count` is how many were claimed up to and with its frame."""
    frame = frame_at(claims, index)
    return {iterator: row(claims, index, values), "index": index, "count": frame.first + frame.count}
