"""Times as people write and read them."""

import time
from datetime import UTC, datetime

import pytest

from services.cli.console import times

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("now", "2026-11-16T12:00:00+00:00"),
        ("2h", "2026-11-16T10:00:00+00:00"),
        ("1d12h", "2026-11-15T00:00:00+00:00"),
        ("-90s", "2026-11-16T11:58:30+00:00"),
        ("2026-11-16T10:00:00Z", "2026-11-16T10:00:00+00:00"),
        ("2026-11-16T10:00+02:00", "2026-11-16T08:00:00+00:00"),
        ("99999d", "1970-01-01T00:00:00+00:00"),
    ],
)
def test_a_moment_is_a_length_ago_or_iso(text: str, found: str) -> None:
    assert times.moment(text, NOW) == datetime.fromisoformat(found)


def test_without_a_zone_it_is_local_time() -> None:
    assert times.moment("2026-11-16T10:00", NOW) == datetime(2026, 11, 16, 10).astimezone()
    assert times.moment("2026-11-16", NOW) == datetime(2026, 11, 16).astimezone()


@pytest.mark.parametrize("text", ["", "2", "1x", "yesterday", "2h ago", "2026-13-01"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        times.moment(text, NOW)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0ms"), (0.0155, "16ms"), (2.5, "2.5s"), (59.6, "1m"), (185, "3m5s"), (93_784, "1d2h"), (-1, "0ms")],
)
def test_a_length_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert times.length(seconds) == text


def test_an_exact_length_has_all_of_them() -> None:
    assert times.length(93_784, exact=True) == "1d2h3m4s"


def test_times_in_a_sentence_are_shown_in_the_zone_of_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        said = times.localized("given up at 2026-11-18T10:28:14Z, begun at 2026-07-01T09:16:15.224428Z by w-2026-11")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert said == "given up at 2026-11-18 11:28:14+01:00, begun at 2026-07-01 11:16:15+02:00 by w-2026-11"
