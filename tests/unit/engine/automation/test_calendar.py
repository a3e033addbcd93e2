"""Which instants a schedule names, over clock changes, year ends and intervals."""

from datetime import UTC, datetime
from itertools import islice, pairwise

import pytest

from shared.dsl.documents.header import PlaybookRef
from shared.dsl.documents.schedules import Schedule
from shared.engine.automation import calendar
from tests.support.clock import at

BERLIN = "Europe/Berlin"


def shown(instants: list[int]) -> list[str]:
    return [datetime.fromtimestamp(each, UTC).strftime("%m-%d %H:%M") for each in instants]


def cron(expression: str, zone: str = BERLIN, **more: object) -> Schedule:
    return Schedule("s", PlaybookRef("p"), expression, timezone=zone, **more)  # type: ignore[arg-type]


def first(schedule: Schedule, after: str, count: int) -> list[str]:
    return shown(list(islice(calendar.upcoming(schedule, at(after)), count)))


def test_a_skipped_local_time_is_shifted_to_the_change() -> None:
    """Berlin, 29 March 2026: 02:00 becomes 03:00, which is 01:00 UTC."""
    found = first(cron("30 2 * * *"), "2026-03-27T12:00Z", 3)
    assert found == ["03-28 01:30", "03-29 01:00", "03-30 00:30"]


def test_a_skipped_local_time_is_skipped() -> None:
    found = first(cron("30 2 * * *", missing="skip"), "2026-03-27T12:00Z", 3)
    assert found == ["03-28 01:30", "03-30 00:30", "03-31 00:30"]


def test_skipped_times_of_one_change_are_one_fire() -> None:
    found = first(cron("*/15 2,3 * * *"), "2026-03-29T00:00Z", 4)
    assert found == ["03-29 01:00", "03-29 01:15", "03-29 01:30", "03-29 01:45"]


def test_a_repeated_local_time_comes_once() -> None:
    """Berlin, 25 October 2026: 03:00 becomes 02:00; 02:30 is 00:30 UTC and 01:30 UTC."""
    found = first(cron("30 2 * * *"), "2026-10-24T12:00Z", 2)
    assert found == ["10-25 00:30", "10-26 01:30"]


def test_a_repeated_local_time_comes_twice() -> None:
    found = first(cron("30 2 * * *", repeated="twice"), "2026-10-24T12:00Z", 3)
    assert found == ["10-25 00:30", "10-25 01:30", "10-26 01:30"]


def test_times_of_a_repeated_hour_come_in_the_order_of_the_world() -> None:
    found = first(cron("*/30 * * * *", repeated="twice"), "2026-10-24T23:59Z", 6)
    assert found == ["10-25 00:00", "10-25 00:30", "10-25 01:00", "10-25 01:30", "10-25 02:00", "10-25 02:30"]


def test_between_the_two_passes_only_the_second_is_left() -> None:
    assert first(cron("30 2 * * *", repeated="twice"), "2026-10-25T00:30Z", 1) == ["10-25 01:30"]
    assert first(cron("30 2 * * *", repeated="once"), "2026-10-25T00:30Z", 1) == ["10-26 01:30"]


def test_half_an_hour_is_a_change_too() -> None:
    """Lord Howe Island, 4 October 2026: 02:00 becomes 02:30 at 15:30 UTC of the day before."""
    found = first(cron("15 2 * * *", "Australia/Lord_Howe"), "2026-10-02T20:00Z", 2)
    assert found == ["10-03 15:30", "10-04 15:15"]


def test_a_whole_day_that_never_was() -> None:
    """Samoa had no 30 December 2011: it begins with the 31st, at 10:00 UTC of the 30th."""
    shifted = cron("0 12 * * *", "Pacific/Apia")
    assert first(shifted, "2011-12-29T00:00Z", 3) == ["12-29 22:00", "12-30 10:00", "12-30 22:00"]
    skipped = cron("0 12 * * *", "Pacific/Apia", missing="skip")
    assert first(skipped, "2011-12-29T00:00Z", 2) == ["12-29 22:00", "12-30 22:00"]


def test_the_year_ends_in_the_zone_of_the_schedule() -> None:
    assert first(cron("0 0 1 1 *", "Asia/Tokyo"), "2026-12-01T00:00Z", 1) == ["12-31 15:00"]
    assert first(cron("59 23 31 12 *", "America/New_York"), "2026-12-31T23:59Z", 1) == ["01-01 04:59"]


def test_the_last_day_of_a_month_and_a_leap_day() -> None:
    assert first(cron("0 6 L 2 *", "UTC"), "2027-06-01T00:00Z", 1) == ["02-29 06:00"]
    assert first(cron("0 6 29 2 *", "UTC"), "2025-06-01T00:00Z", 1) == ["02-29 06:00"]


def test_an_interval_counts_from_the_epoch_or_from_its_start() -> None:
    quarter = Schedule("s", PlaybookRef("p"), every=900)
    assert first(quarter, "2026-03-29T00:50Z", 3) == ["03-29 01:00", "03-29 01:15", "03-29 01:30"]
    started = Schedule("s", PlaybookRef("p"), every=900, start=at("2026-03-29T00:07Z"))
    assert first(started, "2026-03-28T00:00Z", 2) == ["03-29 00:07", "03-29 00:22"]


def test_start_and_end_are_included() -> None:
    within = cron("0 * * * *", "UTC", start=at("2026-01-01T05:00Z"), end=at("2026-01-01T07:00Z"))
    assert first(within, "2025-01-01T00:00Z", 9) == ["01-01 05:00", "01-01 06:00", "01-01 07:00"]


def test_the_latest_of_a_long_stop_are_found_without_counting_all() -> None:
    every_minute = cron("* * * * *", "UTC")
    found, more = calendar.latest(every_minute, at("2020-01-01T00:00Z"), at("2026-01-01T00:00Z"), 3)
    assert (shown(found), more) == (["12-31 23:58", "12-31 23:59", "01-01 00:00"], True)
    assert calendar.latest(every_minute, at("2026-01-01T00:00Z"), at("2026-01-01T00:02Z"), 3)[1] is False


@pytest.mark.parametrize("zone", [BERLIN, "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"])
def test_an_hourly_schedule_with_twice_never_pauses(zone: str) -> None:
    """Of a whole year, clock changes included."""
    hourly = cron("0 * * * *", zone, repeated="twice")
    found = list(islice(calendar.upcoming(hourly, at("2026-01-01T00:00Z")), 24 * 364))
    steps = {later - earlier for earlier, later in pairwise(found)}
    assert max(steps) <= 5400
