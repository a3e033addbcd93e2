"""What a schedule does now: which times are due, which of the missed ones are made up, and what happens
to a time that comes while an execution before it still runs. Pure; after its own state it decides nothing.

    catch_up   none  missed times are gone
               last  the latest missed time is made up, if none later is on time
               all   every missed time is made up, oldest first, at most `made_up`: older ones are left out
    overlap    allow   each time starts an execution
               skip    a time that comes while one runs is skipped; made up ones go one after another
               cancel  what runs is cancelled, then the new one starts
"""

from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shared.dsl.documents.schedules import Schedule
from shared.dsl.templates import evaluate as template
from shared.dsl.templates.budget import MAX_DECISION_WORK, Budget, one_decision
from shared.engine.automation import calendar
from shared.errors import Corrupt, TemplateError
from shared.events.request import Request, decode_derived, derive_id
from shared.events.stamp import stamp

ON_TIME_S = 30  # a time decided on later than this was missed
BATCH = 10      # started in one decision
COSTLY = MAX_DECISION_WORK // 10  # units of payloads after which a decision starts no more
RECENT = 50     # fires remembered: for people, and to know what still runs


class Fire(Struct, frozen=True, omit_defaults=True):
    """A time that was decided on. `sent`: the request is with the broker; `over`: the execution is."""

    at: int
    execution_id: str
    verdict: Literal["started", "skipped", "failed"]
    why: str = ""
    sent: bool = False
    over: bool = False

    @property
    def running(self) -> bool:
        return self.verdict == "started" and not self.over


class State(Struct, frozen=True, omit_defaults=True):
    """How far a schedule is. Every time up to `decided` is decided on; `owed` are missed times still
    to be made up; missed times before `left_out` were too many."""

    decided: int = 0
    owed: tuple[int, ...] = ()
    recent: tuple[Fire, ...] = ()
    cancels: tuple[str, ...] = ()
    left_out: int = 0


def execution_id(name: str, at: int) -> str:
    """One per schedule and time, whoever fires it and however often."""
    return derive_id("schedule", name, at)


@one_decision
def request(schedule: Schedule, at: int) -> Request:
    """What is asked for at a time. Raises TemplateError if the payload cannot be rendered."""
    scope = {"schedule": {"name": schedule.name, "unix": at, "time": stamp(at),
                          "local": calendar.local(schedule, at).isoformat()}}
    playbook = schedule.playbook
    payload: dict[str, Any] = template.evaluate(playbook.payload, scope)
    asked = execution_id(schedule.name, at)
    return Request(playbook.path, playbook.version, payload, asked, labels=schedule.labels,
                   by=f"schedule {schedule.name}")


def next_due(schedule: Schedule, state: State, since: int) -> int | None:
    """The first time not decided on."""
    return next(calendar.upcoming(schedule, max(state.decided, since)), None)


def decide(schedule: Schedule, state: State, since: int, now: float, over: frozenset[str]) -> State:
    """`since`: times up to it were never promised. `over`: executions of `recent` known to have ended."""
    state = _noticed(state, over)
    state, on_time = _due(schedule, state, since, int(now))
    if schedule.overlap == "allow":
        state = _start(schedule, state, state.owed[:BATCH])
        return _start(schedule, state, () if on_time is None else (on_time,))
    if schedule.overlap == "cancel":
        times = (*state.owed, *(() if on_time is None else (on_time,)))
        return _start(schedule, _cancelled(state), times[-1:]) if times else state
    if state.owed and not running(state):
        state = _start(schedule, state, state.owed[:1])
    if on_time is None:
        return state
    if state.owed or running(state):
        return _remember(state, Fire(on_time, execution_id(schedule.name, on_time), "skipped", _busy(state)))
    return _start(schedule, state, (on_time,))


def running(state: State) -> tuple[str, ...]:
    return tuple(fire.execution_id for fire in state.recent if fire.running)


def unsent(state: State) -> tuple[Fire, ...]:
    return tuple(fire for fire in state.recent if fire.verdict == "started" and not fire.sent)


def told(state: State, sent: frozenset[str]) -> State:
    """The broker has these requests, and the cancels."""
    recent = tuple(replace(fire, sent=True) if fire.execution_id in sent else fire for fire in state.recent)
    return replace(state, recent=recent, cancels=())


def _due(schedule: Schedule, state: State, since: int, now: int) -> tuple[State, int | None]:
    """Advances `decided` and moves the missed times to make up into `owed`; returns the time that is on time."""
    owed = state.owed if schedule.catch_up != "none" else ()
    most = schedule.made_up if schedule.catch_up == "all" else 1
    found, more = calendar.latest(schedule, max(state.decided, since), now, most + 1)
    if not found:
        return replace(state, owed=owed), None
    on_time = found[-1] if now - found[-1] <= ON_TIME_S else None
    missed = found if on_time is None else found[:-1]
    if schedule.catch_up == "none" or (schedule.catch_up == "last" and on_time is not None):
        missed = []
    kept = (*owed, *missed)[-most:]
    cut = schedule.catch_up == "all" and (more or len(kept) < len(owed) + len(missed))
    left_out = kept[0] if cut else state.left_out
    return replace(state, decided=found[-1], owed=kept, left_out=left_out), on_time


def _start(schedule: Schedule, state: State, times: tuple[int, ...]) -> State:
    """Those of them that are owed stay so when the ones before were costly: the next decision starts them."""
    started = set()
    with Budget(None) as spent:
        for at in times:
            state = _remember(state, _fire(schedule, at))
            started.add(at)
            if spent.used > COSTLY:
                break
    return replace(state, owed=tuple(at for at in state.owed if at not in started))


def _fire(schedule: Schedule, at: int) -> Fire:
    name = execution_id(schedule.name, at)
    try:
        decode_derived(msgspec.json.encode(request(schedule, at)))  # the router would reject a larger one
    except (TemplateError, Corrupt) as error:
        return Fire(at, name, "failed", str(error))
    return Fire(at, name, "started")


def _cancelled(state: State) -> State:
    """Those before make room: what runs is told to stop, and what is owed is no longer made up."""
    stopped = running(state)
    recent = tuple(replace(fire, over=True) if fire.running else fire for fire in state.recent)
    return replace(state, recent=recent, cancels=(*state.cancels, *stopped), owed=())


def _noticed(state: State, over: frozenset[str]) -> State:
    if not over:
        return state
    recent = tuple(replace(f, over=True) if f.execution_id in over else f for f in state.recent)
    return replace(state, recent=recent)


def _remember(state: State, fire: Fire) -> State:
    """What runs is kept before what does not: a long run may outlast any number of skipped times."""
    recent = [*state.recent, fire]
    if len(recent) > RECENT:
        recent.pop(next((index for index, each in enumerate(recent) if not each.running), 0))
    return replace(state, recent=tuple(recent))


def _busy(state: State) -> str:
    found = running(state)
    return f"execution {found[-1]} runs" if found else f"{len(state.owed)} missed times are made up first"
