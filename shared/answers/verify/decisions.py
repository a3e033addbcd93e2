"""Every decision of the router and the scheduler, made again from what it had folded."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from shared.answers.history.history import Entry, History, PlanOf, Violation
from shared.answers.verify.past_rules import looks_at, of_its_time
from shared.engine.routing import decide as routing
from shared.engine.routing import state as execution
from shared.engine.routing.state import Execution
from shared.engine.scheduling import decide as scheduling
from shared.engine.scheduling import signals
from shared.engine.scheduling import state as schedule
from shared.engine.scheduling.state import Schedule
from shared.engine.values.stored_values import Values, shrink
from shared.errors import Corrupt, TemplateError
from shared.events import model as ev
from shared.events.readers import INPUTS
from shared.events.record import Record, event_type
from shared.events.request import Request
from shared.events.stamp import seconds

# What deciders and folds meet in a history that no service can have written.
UNFIT = (
    Corrupt, TemplateError, msgspec.MsgspecError, LookupError, AssertionError, ValueError, TypeError, AttributeError,
)
_events = msgspec.json.Decoder(tuple[ev.Event, ...])


def check_decisions(history: History, plan_of: PlanOf, values: Values) -> Iterable[Violation]:
    """Who reads whom is a fact about the wire, not a judgement: the services' own table is the right one here."""
    yield from _again(_Router(history.execution_id, plan_of, values), history.by("router"),
                      history.by(*INPUTS["router"]))
    yield from _again(_Scheduler(history.execution_id, plan_of, values), history.by("scheduler"),
                      history.by(*INPUTS["scheduler"]))


class _Router:
    def __init__(self, execution_id: str, plan_of: PlanOf, values: Values) -> None:
        self._plan_of, self._values = plan_of, values
        self.state = Execution(execution_id)

    def fold(self, entries: list[Entry]) -> None:
        for seq, record in entries:
            self.state = execution.evolve(self.state, record, seq)

    def decide(self, record: Record) -> list[ev.Event]:
        now = seconds(record.ts)
        if self.state.n == 0:
            return _start(record, self._plan_of, now, self._values)
        if execution.is_over(self.state):
            return []
        return routing.decide(self._plan_of(self.state.digest), self.state, now, self._values)


class _Scheduler:
    def __init__(self, execution_id: str, plan_of: PlanOf, values: Values) -> None:
        self._plan_of, self._values = plan_of, values
        self.state = Schedule(execution_id)

    def fold(self, entries: list[Entry]) -> None:
        self.state = schedule.evolve(self.state, entries)

    def decide(self, record: Record) -> list[ev.Event]:
        plan_of = of_its_time(self._plan_of, record)
        now = seconds(record.ts)
        found = scheduling.decide(plan_of, self.state, now, self._values)
        if looks_at(found) == looks_at(record.events):
            return found
        former = scheduling.decide(plan_of, self.state, now, self._values, signals.FORMER)
        return former if looks_at(former) == looks_at(record.events) else found


def _start(record: Record, plan_of: PlanOf, now: float, values: Values) -> list[ev.Event]:
    """The first decision. A refused request does not say which plan it was refused for: its shape is
    all that can be checked."""
    match record.events:
        case (ev.ExecutionRequested(), ev.RequestEvaluated(error=None), *_):
            requested, evaluated = record.events[:2]
            assert isinstance(requested, ev.ExecutionRequested)
            assert isinstance(evaluated, ev.RequestEvaluated)
            request = Request(
                path=requested.path, version=requested.version, payload=requested.payload, execution_id="",
                parent=requested.parent, priority=requested.priority, labels=requested.labels, by=requested.by,
            )
            plan = plan_of(evaluated.digest)
            restored = next((event for event in record.events if isinstance(event, ev.PlaybookRestored)), None)
            return routing.start(
                record.execution_id, request, requested.request_id, plan, now, restored, values, evaluated.pools
            )
        case (ev.ExecutionRequested() as requested, ev.RequestEvaluated(error=error), *_) if error:
            return [requested, ev.RequestEvaluated("", error), ev.PlaybookProcessed("failed", None, error)]
    return []


def _again(side: _Router | _Scheduler, own: list[Entry], inputs: list[Entry]) -> Iterator[Violation]:
    """Inputs up to `as_of` are folded after the writer's earlier records, as the writer itself did. The
    order does not matter: no input speaks of what only a later decision made."""
    last = at = 0
    for seq, record in own:
        if record.as_of < last:
            yield Violation("decision", f"{record.writer} {record.n}: as of {record.as_of}, after {last}", seq)
        last = max(last, record.as_of)
        try:
            until = bisect_right(inputs, record.as_of, at, key=lambda entry: entry[0])
            if until > at:
                side.fold(inputs[at:until])
                at = until
            yield from _compare(side.decide(record), seq, record)
            side.fold([(seq, record)])
        except UNFIT as error:
            message = f"{record.writer} {record.n} does not fit what came before: {type(error).__name__} {error}"
            yield Violation("decision", message, seq)
            return


def _compare(derived: list[ev.Event], seq: int, record: Record) -> Iterator[Violation]:
    small, _ = shrink(record.execution_id, derived)
    expected = as_read(small)
    if expected == record.events:
        return
    pairs = list(zip(expected, record.events, strict=False))
    at = next((i for i, (ours, theirs) in enumerate(pairs) if ours != theirs), len(pairs))
    told, due = _told(record.events, at), _told(expected, at)
    yield Violation("decision", f"{record.writer} {record.n + at}: the log says {told}; what follows is {due}", seq)


def as_read(events: Iterable[ev.Event]) -> tuple[ev.Event, ...]:
    """The events as a reader of the log gets them: lists for tuples, and so on."""
    return _events.decode(msgspec.json.encode(tuple(events)))


def _told(events: tuple[ev.Event, ...], at: int) -> str:
    if at >= len(events):
        return "nothing"
    fields: dict[str, Any] = msgspec.to_builtins(events[at])
    fields.pop("event_type")
    text = msgspec.json.encode(fields).decode()
    return f"{event_type(events[at])} {text if len(text) <= 300 else text[:300] + '…'}"


