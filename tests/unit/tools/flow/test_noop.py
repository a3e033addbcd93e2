"""`kind: noop` answers with its args, unless JSON cannot hold them."""

from typing import Any

import pytest

from shared.tools.flow.noop import answer
from tests.support.calls import call


@pytest.mark.parametrize("args", [None, {}, {"a": None, "b": 1.5}, [1, "x"], "text", 0])
def test_the_result_is_its_args(args: Any) -> None:
    outcome = answer(call({"args": args}))
    assert (outcome.status, outcome.result) == ("ok", args)


@pytest.mark.parametrize(("args", "where"), [
    ({"a": [1, float("nan")]}, "result.a[1] is nan"), ({"b": float("inf")}, "result.b is inf"),
    ({"c": 2**70}, "result.c is an integer of over 64 bits"),
])
def test_what_the_log_would_have_as_null_is_an_error(args: Any, where: str) -> None:
    error = answer(call({"args": args})).error
    assert error is not None
    assert (error["kind"], error["message"]) == ("result", f"the result is not JSON: {where}")
