"""The result of one turn of an execution, before anything is sent: the state, messages, and the record to write."""

from typing import Generic

from msgspec import Struct

from shared.engine.core import Core, Drafting, Outgoing, S
from shared.engine.values.stored_values import shrink
from shared.events.record import Entry, Record, encode
from shared.events.stamp import recorded, stamp
from shared.runtime.control.actor import Actor

SOON_S = 1.0  # a turn is as of the time of its record; what time alone adds within this is the next turn's


class Turn(Struct, Generic[S]):
    """`record` is None when nothing is decided; `blobs` are large values that have to be stored before it. `unfit` are
    those of the inbox that count for nothing, and why. `draft` is what the decision arrived at, if that is known."""

    state: S
    messages: list[Outgoing]
    unfit: list[tuple[Entry, str]]
    record: Record | None = None
    data: bytes = b""
    blobs: dict[str, bytes] = {}
    draft: S | None = None


class Ready(Struct, Generic[S]):
    """A turn, and what it was made of: good as long as nothing of that has changed. `at`: when it was made; whoever
    comes back to it says when it was put by, since making it may have taken long."""

    turn: Turn[S]
    state: S
    given: list[Entry]
    horizon: int
    at: float


def made_ready(
    core: Core[S], actor: Actor[S], now: float, horizon: int, before: Ready[S] | None = None,
    drafting: Drafting[S] | None = None,
) -> Ready[S] | None:
    """The turn that was made `before`, if it would come out the same: a costly decision is made once. Otherwise a new
    one, as of `now`. None: the state is not what it should be, and has to be loaded. May raise Missing and PlanMissing;
    and anything, for an execution that the service cannot continue."""
    assert actor.state is not None
    if before is not None and _is_good(before, actor, now, horizon):
        return before
    with actor.pace.counting(now):
        turn = _turn(core, drafting, actor, now, horizon)
    return None if turn is None else Ready(turn, actor.state, actor.inbox[:], horizon, now)


def _is_good(ready: Ready[S], actor: Actor[S], now: float, horizon: int) -> bool:
    if ready.state is not actor.state or ready.horizon != horizon or ready.given != actor.inbox:
        return False
    return 0 <= now - ready.at <= SOON_S


def _turn(
    core: Core[S], drafting: Drafting[S] | None, actor: Actor[S], now: float, horizon: int
) -> Turn[S] | None:
    assert actor.state is not None
    news = actor.news()
    if news and core.stale(actor.state, news):
        return None
    fitting: set[int] = set()
    state = core.fold(actor.state, news, fitting) if news else actor.state
    unfit = [
        (entry, f"a record that does not fit: {reason}") for entry in actor.inbox
        if entry[1].lease is not None and (reason := core.unfit(state, entry, fitting))
    ]
    if unfit and any(seq > actor.state.as_of for (seq, _), _ in unfit):
        return None  # it may follow from a record of another instance, which is read with the whole log
    messages = list(core.outgoing(state, news, actor.values, horizon))
    now = recorded(now)
    if drafting is None:
        events, draft = core.decide(state, now, actor.values), None  # as anyone can re-derive it
    else:
        events, draft = drafting.decided(state, now, actor.values)
    if not events:
        return Turn(state, messages, unfit)
    events, blobs = shrink(actor.execution_id, events)
    if blobs:
        draft = None  # it was made of what is not in the record now
    record = Record(actor.execution_id, core.writer, state.n + 1, stamp(now), tuple(events), state.as_of)
    return Turn(state, messages, unfit, record, encode(record), blobs, draft)


def with_own(core: Core[S], drafting: Drafting[S] | None, turn: Turn[S], seq: int, record: Record) -> S:
    """The state after the turn's record, which has this sequence in the log."""
    if drafting is not None and turn.draft is not None:
        return drafting.accepted(turn.draft, record, seq)
    return core.fold(turn.state, [(seq, record)])
