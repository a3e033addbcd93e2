"""What JSON cannot hold as it is, found without looking at every number."""

import random
import re
from typing import Any

import msgspec
import pytest

from shared.tools.base.json_value import lost


@pytest.mark.parametrize(("value", "place"), [
    ({"a": [1, float("inf")]}, "result.a[1] is inf"), ([float("nan")], "result[0] is nan"),
    ({"n": 2**64}, "result.n is an integer of over 64 bits"), ({"n": -(2**63) - 1}, "result.n is an integer"),
    ({"a b": {"c": 10**40}}, "result['a b'].c is an integer of over 64 bits"),
])
def test_the_first_place_is_named(value: Any, place: str) -> None:
    assert lost(value, _written(value)).startswith(place)


@pytest.mark.parametrize("value", [
    None, "null", 2**64 - 1, -(2**63), "1" * 40, {"9" * 19: [None, 0.1234567890123456789]}, 10**17, [1.5, None],
    "x" * 100_000, ["0" * 18] * 1000,
])
def test_what_is_whole_loses_nothing(value: Any) -> None:
    assert lost(value, _written(value)) == ""


def test_digits_are_counted_as_an_expression_counts_them() -> None:
    rng = random.Random(1)
    for _ in range(300):
        number = rng.randrange(10 ** rng.randrange(15, 24))
        value = {"a": ["x" * rng.randrange(5), number, str(number)]}
        is_lost = number > 2**64 - 1
        assert bool(lost(value, _written(value))) == is_lost
        assert not is_lost or re.search(rb"\d{19}", _written(value))


def _written(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except OverflowError:  # an encoder of another version refuses
        raise AssertionError(value) from None
