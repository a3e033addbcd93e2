"""Signals: which an execution keeps, and how many of them one decision looks at.

1. A signal that no wait has taken is kept for one that begins later. An execution keeps at most MAX_SIGNALS, with
   payloads of MAX_SIGNAL_BYTES together. One that comes when it has as many is rejected by a decision of its own, so
   the log says what became of every signal.
2. Whoever sends signals chooses how many there are and what checking one costs. So a decision looks at them in the
   order in which they came until it has used ROUND_UNITS, always at one at least, and what is left is for the next
   decision, which is due at once. Where it begins follows from the log: what was looked at was taken or rejected.
3. Only work is counted, so the same decision over the same signals ends at the same one, whoever makes it again. The
   bytes of a payload count too: those that end a wait are in the record of the decision.
"""

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from shared.dsl.templates import json_schema
from shared.dsl.templates.budget import Budget
from shared.events import model as ev

if TYPE_CHECKING:
    from shared.engine.scheduling.state import Schedule

MAX_SIGNALS = 1000              # that are kept
MAX_SIGNAL_BYTES = 8 * 1_048_576  # of their payloads together
ROUND_UNITS = json_schema.MAX_CHECK_WORK  # of checking signals in one decision; what takes longer is the next one's
LOOK_UNITS = 2000               # of looking at one, whatever its schema costs: so at most a hundred in a decision
MAX_REFUSED = 100               # rejected by one decision because too many are kept
MAX_MISFIT = 500
FULL = f"over {MAX_SIGNALS} signals, or {MAX_SIGNAL_BYTES} bytes of them, wait for a task that asks for them"


class Rule(Struct, frozen=True):
    """How a decision goes about signals. `units` None: it looks at all of them; `refuses` those that are too many."""

    units: int | None = ROUND_UNITS
    refuses: bool = True


TODAY = Rule()
FORMER = Rule(units=None, refuses=False)  # of decisions written before there was a bound


def keep(state: "Schedule", source: str, event: ev.SignalReceived) -> None:
    """In place, on a draft. The same request again is the same signal."""
    if source in state.heard:
        return
    state.heard = (*state.heard, source)[-MAX_SIGNALS:]
    if source in state.signals or len(state.signals) < MAX_SIGNALS:
        state.signals[source] = event
        state.signal_bytes[source] = len(msgspec.json.encode(event.payload))
    else:
        state.excess[source] = event.name


def forget(state: "Schedule", source: str) -> None:
    """In place, on a draft."""
    state.signals.pop(source, None)
    state.signal_bytes.pop(source, None)
    state.excess.pop(source, None)


def has_room(state: "Schedule", payload: Any) -> bool:
    """Another one would be kept."""
    size = len(msgspec.json.encode(payload))
    return len(state.signals) < MAX_SIGNALS and sum(state.signal_bytes.values()) + size <= MAX_SIGNAL_BYTES


def is_over(state: "Schedule") -> bool:
    """More came than are kept."""
    return bool(state.excess) or (bool(state.signal_bytes) and sum(state.signal_bytes.values()) > MAX_SIGNAL_BYTES)


def refusals(state: "Schedule") -> Iterator[ev.SignalRejected]:
    """Of what is too much, as far as one decision goes."""
    if not is_over(state):
        return
    kept = left = 0
    for source, size in state.signal_bytes.items():
        if kept + size <= MAX_SIGNAL_BYTES:
            kept += size
        elif left < MAX_REFUSED:
            left += 1
            yield ev.SignalRejected(source, state.signals[source].name, FULL)
    for source, name in list(state.excess.items())[: MAX_REFUSED - left]:
        yield ev.SignalRejected(source, name, FULL)


def is_asked_for(state: "Schedule") -> bool:
    """A wait asks for a signal that is there: a decision follows."""
    if not state.signals:
        return False
    asked = {wait.event.signal for wait in state.waits.values() if not wait.over}
    return any(signal.name in asked for signal in state.signals.values())


class Round:
    """What one decision looks at: each signal once, for the first wait that asks for its name."""

    def __init__(self, state: "Schedule", rule: Rule) -> None:
        self._state, self._left = state, rule.units
        self._named: dict[str, deque[str]] = {}
        for source, signal in state.signals.items():
            self._named.setdefault(signal.name, deque()).append(source)

    def of(self, name: str, schema: dict[str, Any]) -> Iterator[tuple[str, ev.SignalReceived, str]]:
        """Signals of the name, and what in each does not match the schema."""
        sources = self._named.get(name)
        while sources and (self._left is None or self._left > 0):
            source = sources.popleft()
            signal = self._state.signals[source]
            with Budget(None) as spent:
                wrong = misfit(signal.payload, schema)
            if self._left is not None:
                self._left -= LOOK_UNITS + self._state.signal_bytes.get(source, 0) + spent.used
            yield source, signal, wrong


def misfit(payload: Any, schema: dict[str, Any]) -> str:
    """What in the payload does not match the schema; empty if all does."""
    return json_schema.misfit(payload, schema, MAX_MISFIT) if schema else ""
