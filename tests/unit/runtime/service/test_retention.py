"""How long things are kept, as people write it."""

import pytest

from shared.runtime.service.retention import BadRetention, Retention, margin, named, parsed, shown

DAY = 86_400.0


def test_what_is_named_is_set_and_the_rest_stays() -> None:
    first = parsed(["results=30d", "read_model=90d"])
    assert (first.results, first.read_model, first.requests) == (30 * DAY, 90 * DAY, 7 * DAY)
    second = parsed(["requests=never", "results=12h"], first)
    assert (second.results, second.read_model, second.requests) == (DAY / 2, 90 * DAY, 0.0)
    assert parsed([]) == Retention()


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        (["log=5d"], "is not one of results=TIME"),
        (["results"], "is not one of"),
        (["results=soon"], "give a time"),
        (["results=0s"], "give a time"),
        (["results=59s"], "at least 1m"),
        (["requests=30m"], "at least 1h"),
        (["dead_letters=40000d"], "at most 36500d"),
        (["results=1d", "results=2d"], "results is there twice"),
    ],
)
def test_what_cannot_be_kept_to_is_refused(parts: list[str], why: str) -> None:
    with pytest.raises(BadRetention, match=why):
        named(parts)


@pytest.mark.parametrize("results", [[], ["results=2d"], ["results=never"]])
def test_rows_do_not_go_before_results(results: list[str]) -> None:
    with pytest.raises(BadRetention, match="no longer"):
        parsed(["read_model=1d", *results])


@pytest.mark.parametrize(("seconds", "text"), [(0, "never"), (60, "1m"), (5400, "90m"), (7200, "2h"), (86_400, "1d")])
def test_times_are_shown_as_they_are_written(seconds: float, text: str) -> None:
    assert shown(seconds) == text


def test_results_stay_a_margin_longer_than_reruns_may_take_them() -> None:
    assert [margin(age) for age in (60.0, 600.0, 30 * DAY)] == [10.0, 60.0, 3600.0]
