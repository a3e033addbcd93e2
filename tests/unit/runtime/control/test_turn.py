"""A turn that was made is taken as it is, unless something has changed."""

from collections.abc import Collection, Sequence
from typing import Any

import pytest
from msgspec import Struct

from shared.dsl.templates.budget import spend
from shared.engine.values.stored_values import Missing
from shared.events.outcome import Ref
from shared.events.record import Entry
from shared.runtime.control.actor import Actor
from shared.runtime.control.turn import SOON_S, made_ready

UNITS = 1000


class State(Struct):
    n: int = 0
    seq: int = 0
    as_of: int = 0


class Core:
    """Decides nothing, and counts how often; lacks what is not among the values."""

    writer = "router"

    def __init__(self) -> None:
        self.decided = 0
        self.lacks: Ref | None = None

    def stale(self, _: State, __: Sequence[Entry]) -> bool:
        return False

    def fold(self, state: State, _: Sequence[Entry], __: set[int] | None = None) -> State:
        return state

    def unfit(self, _: State, __: Entry, ___: Collection[int] = ()) -> str:
        return "it was not started"

    def outgoing(self, *_: Any) -> list[Any]:
        return []

    def decide(self, _: State, __: float, values: dict[str, Any]) -> list[Any]:
        self.decided += 1
        spend(UNITS)
        if self.lacks is not None and self.lacks.checksum not in values:
            raise Missing(self.lacks)
        return []


class Clock:
    at = 100.0

    def now(self) -> float:
        return self.at


class Entrylike(Struct):
    lease: None = None


def _all() -> tuple[Any, Actor[Any], Any]:
    return Core(), Actor("x", State()), Clock()


def test_it_is_decided_once() -> None:
    core, actor, clock = _all()
    before = made_ready(core, actor, clock.now(), 0)
    assert before is not None
    assert made_ready(core, actor, clock.now(), 0, before) is before
    assert core.decided == 1
    assert actor.pace.ahead == UNITS
    assert made_ready(core, actor, clock.now(), 0) is not None
    assert core.decided == 2, "a new turn is a new decision"


def _message(actor: Actor[Any], _: Any) -> int:
    actor.inbox.append((5, Entrylike()))  # type: ignore[arg-type]  # a record that nobody reads
    return 0


def _state(actor: Actor[Any], _: Any) -> int:
    actor.state = State()
    return 0


def _time(_: Actor[Any], clock: Any) -> int:
    clock.at += SOON_S + 0.1
    return 0


def _back(_: Actor[Any], clock: Any) -> int:
    clock.at -= 5.0
    return 0


def _horizon(_: Actor[Any], __: Any) -> int:
    return 7


@pytest.mark.parametrize("change", [_message, _state, _time, _back, _horizon])
def test_it_is_decided_again_when_something_has_changed(change: Any) -> None:
    core, actor, clock = _all()
    before = made_ready(core, actor, clock.now(), 0)
    horizon = change(actor, clock)
    assert made_ready(core, actor, clock.now(), horizon, before) is not None
    assert core.decided == 2


def test_what_came_to_nothing_counts_for_the_pace_too() -> None:
    core, actor, clock = _all()
    core.lacks = Ref("nats", "k", "a1" * 32, 9)
    with pytest.raises(Missing):
        made_ready(core, actor, clock.now(), 0)
    assert actor.pace.ahead == UNITS
    actor.values["a1" * 32] = 1
    made_ready(core, actor, clock.now(), 0)
    assert actor.pace.ahead == 2 * UNITS


class Report(Struct):
    lease: str = "of a worker"


def test_what_does_not_fit_is_judged_by_the_whole_log_alone() -> None:
    """Two of a kind may look after one execution for a moment: what one of them has not written itself, it has not
    read."""
    core, actor, clock = _all()
    actor.inbox.append((5, Report()))  # type: ignore[arg-type]  # a record that nobody reads
    assert made_ready(core, actor, clock.now(), 0) is None, "it has to be loaded"
    actor.state = State(as_of=5)
    ready = made_ready(core, actor, clock.now(), 0)
    assert ready is not None
    (((seq, _), reason),) = ready.turn.unfit
    assert (seq, reason) == (5, "a record that does not fit: it was not started")
