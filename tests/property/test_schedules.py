"""Fire times and decisions hold whatever the zone, the rule and the moment of looking."""

import json
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.dsl.documents.header import PlaybookRef
from shared.dsl.documents.schedules import Schedule
from shared.dsl.documents.triggers import WHOLE, Trigger
from shared.engine.automation import calendar
from shared.engine.automation import schedules as automation_schedules
from shared.engine.automation.triggers import Arrived, Broken, react
from shared.events.bounds import EXECUTION_ID
from shared.events.request import Request

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "America/St_Johns",
         "Africa/Casablanca", "Pacific/Chatham", "UTC")
CRONS = ("*/7 * * * *", "30 2 * * *", "0 0 * * *", "0 */3 * * *", "15 1-3 * * 0", "0 0 1 1 *", "59 23 31 12 *",
         "*/20 2 * 3,10 *")
# around clock changes of these zones, and the ends of years
MOMENTS = ("2026-03-29", "2026-10-25", "2026-03-08", "2026-11-01", "2026-04-05", "2026-10-04", "2011-12-30",
           "2026-02-15", "2026-03-22", "2025-12-31", "2028-02-29")

schedules = st.builds(
    Schedule, st.just("s"), st.just(PlaybookRef("p")), cron=st.sampled_from(CRONS), timezone=st.sampled_from(ZONES),
    missing=st.sampled_from(["shift", "skip"]), repeated=st.sampled_from(["once", "twice"]),
    catch_up=st.sampled_from(["none", "last", "all"]), made_up=st.integers(1, 40),
    overlap=st.sampled_from(["allow", "skip"]),
)
moments = st.builds(
    lambda day, minutes: int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) + minutes * 60,
    st.sampled_from(MOMENTS), st.integers(-2000, 2000),
)


def by_walking(schedule: Schedule, low: int, high: int) -> list[int]:
    """What the rules say, minute by minute of the world: each minute shows a local time, and the cron
    expression names it or not. A change that skips named times is a fire if they are shifted."""
    zone = ZoneInfo(schedule.timezone)
    found, shown = [], None
    walls = [datetime.fromtimestamp(at, zone) for at in range(low - low % 60 - 60, high + 1, 60)]
    named = _named(schedule.cron, walls)
    for here in walls:
        wall, at = here.replace(tzinfo=None, fold=0), int(here.timestamp())
        fires = wall in named and not (here.fold and schedule.repeated == "once")
        if shown is not None and wall - shown > timedelta(minutes=1) and schedule.missing == "shift":
            fires = fires or any(shown < each < wall for each in named)
        if fires and low < at <= high:
            found.append(at)
        shown = wall
    return found


def _named(expression: str, shown: list[datetime]) -> set[datetime]:
    """The local times between the first and the last that the expression names."""
    walls = [here.replace(tzinfo=None, fold=0) for here in shown]
    found = CronSim(expression, min(walls) - timedelta(minutes=1))
    last = max(walls)
    return set(takewhile(lambda wall: wall <= last, found))


@settings(max_examples=150, deadline=None)
@given(schedules, moments, st.integers(0, 2000))
def test_fire_times_are_those_of_a_clock_watched_minute_by_minute(schedule: Schedule, low: int, minutes: int) -> None:
    high = low + minutes * 60
    found = list(takewhile(lambda at: at <= high, calendar.upcoming(schedule, low)))
    assert found == by_walking(schedule, low, high)


@settings(max_examples=150, deadline=None)
@given(schedules, moments)
def test_times_grow_and_looking_later_changes_nothing(schedule: Schedule, after: int) -> None:
    found = list(islice(calendar.upcoming(schedule, after), 30))
    assert found == sorted(set(found))
    assert list(islice(calendar.upcoming(schedule, found[9]), 20)) == found[10:]


@settings(max_examples=100, deadline=None)
@given(schedules, moments, st.lists(st.integers(1, 40_000), min_size=1, max_size=8))
def test_no_time_is_decided_on_twice_and_none_is_invented(schedule: Schedule, since: int, pauses: list[int]) -> None:
    """Looked at irregularly, with stops of up to half a day; executions end at once."""
    state, now, fired = automation_schedules.State(), float(since), []
    for pause in pauses:
        now += pause
        for _ in range(60):
            running = frozenset(automation_schedules.running(state))
            after = automation_schedules.decide(schedule, state, since, now, running)
            fired += [fire.at for fire in after.recent if fire not in state.recent and fire.running]
            known = frozenset(fire.execution_id for fire in after.recent)
            again, state = state == after, automation_schedules.told(after, known)
            if again:
                break
    named = list(takewhile(lambda at: at <= now, calendar.upcoming(schedule, since)))
    assert len(fired) == len(set(fired))
    assert set(fired) <= set(named)
    if schedule.catch_up == "all" and schedule.overlap == "allow" and not state.left_out:
        assert sorted(fired) == named


MAPPINGS = (WHOLE, {"a": "{{ message.data.a }}"}, "{{ message.data }}")
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
messages = st.binary() | json_values.map(lambda value: json.dumps(value).encode(errors="replace"))


@settings(max_examples=60, deadline=None)
@given(messages, st.sampled_from(["{{ message.data.id }}", "{{ message.data }}", ""]), st.sampled_from(MAPPINGS))
def test_whatever_a_message_holds_a_trigger_answers(data: bytes, dedupe: str, mapping: object) -> None:
    """With a request the router takes, a reason, or nothing; and the same again for the same message."""
    trigger = Trigger("t", "a.b", PlaybookRef("p"), filter="{{ message.data != 1 }}", dedupe=dedupe, mapping=mapping)
    arrived = Arrived("a.b", data, {}, ("S", 1, 1))
    found = react(trigger, arrived)
    assert isinstance(found, Request | Broken | None)
    assert repr(react(trigger, arrived)) == repr(found)
    if isinstance(found, Request):
        assert EXECUTION_ID.fullmatch(found.execution_id)
