"""`kind: python`: every outcome names the call that its process answered, whatever came of it."""

import pytest

from shared.events.outcome import mark
from tests.support.calls import call


@pytest.mark.parametrize(("code", "status"), [("result = 1", "ok"), ("raise ValueError(1)", "error"), ("(", "error")])
async def test_an_outcome_names_its_call(opened, code: str, status: str) -> None:
    tool = opened("python")
    for key in ("x1/start:1/say/1", "x2/start:1.3/say/7"):
        outcome = await tool.run(call({"code": code}, key=key))
        assert (outcome.status, outcome.call) == (status, mark(key))


async def test_a_process_that_answered_nothing_names_none(opened) -> None:
    outcome = await opened("python").run(call({"code": "import os; os._exit(3)"}))
    assert (outcome.error["kind"], outcome.call) == ("crash", "")


def test_marks_are_short_and_tell_calls_apart() -> None:
    keys = [f"x{k}/start:1/say/{attempt}" for k in range(200) for attempt in range(1, 6)]
    assert {len(mark(key)) for key in keys} == {8}
    assert len({mark(key) for key in keys}) == len(keys)
