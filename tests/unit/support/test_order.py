"""The order of the files of tests: all that were given, and no two that compute side by side."""

from tests.support.suite.order import FUZZERS, ordered, spread

WAITING = [f"tests/chaos/test_{number}.py" for number in range(4)] + ["tests/security/test_a.py", "tests/e2e/test_b.py"]
COMPUTING = ["tests/property/test_a.py", "tests/sim/test_b.py"]
FUZZED = [f"{FUZZERS}{name}.py" for name in ("beats", "wire")]
UNIT = [f"tests/unit/engine/test_{number}.py" for number in range(3)]


def test_those_that_compute_are_spread_over_those_that_wait_and_the_small_ones_are_last() -> None:
    chaos, (security, e2e) = WAITING[:4], WAITING[4:]
    assert ordered([*UNIT, *COMPUTING, *WAITING, *FUZZED]) == [
        FUZZED[0], COMPUTING[0], *chaos[:3], FUZZED[1], COMPUTING[1], chaos[3], security, e2e, *UNIT]


def test_what_there_is_one_kind_of_stays_as_it_is() -> None:
    for files in (WAITING, COMPUTING, FUZZED, UNIT, []):
        assert ordered(files) == files


def test_more_that_compute_than_wait_are_all_there() -> None:
    assert sorted(ordered([*COMPUTING, WAITING[0]])) == sorted([*COMPUTING, WAITING[0]])
    assert list(spread(["a", "b", "c"], ["1"])) == ["a", "b", "c", "1"]


def test_this_run_is_in_that_order(request) -> None:
    """Whatever was asked for: also a part of a folder."""
    files = list(dict.fromkeys(item.nodeid.partition("::")[0] for item in request.session.items))
    assert files == ordered(sorted(files))
