"""What goes around every tool's work."""

import asyncio

import pytest

from shared.events.outcome import Outcome, ok
from shared.tools.base import guard as running
from shared.tools.base.guard import BadCall, TooLarge, guarded, one_of, time_limit
from tests.support.calls import call


async def test_what_work_raises_becomes_an_outcome_with_its_blank_fields() -> None:
    async def broken(error: Exception) -> Outcome:
        raise error

    for error, kind in ((BadCall("x"), "config"), (TooLarge("x"), "limit"), (KeyError("x"), "internal")):
        outcome = await guarded(call({}), broken(error), http={"status": None})
        assert outcome.error is not None
        assert (outcome.error["kind"], outcome.error["retryable"]) == (kind, False)
        assert outcome.http == {"status": None}


async def test_work_that_does_not_stop_is_abandoned(monkeypatch) -> None:
    monkeypatch.setattr(running, "STOP_GRACE_S", 0.05)
    release, abandoned = asyncio.Event(), []

    async def stubborn() -> Outcome:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return ok()

    outcome = await guarded(call({}, timeout_s=0.05), stubborn(), lambda: abandoned.append(True))
    assert outcome.error is not None
    assert (outcome.error["kind"], abandoned) == ("timeout", [True])
    release.set()
    await asyncio.sleep(0)


async def test_work_that_finishes_while_it_is_stopped_is_not_lost() -> None:
    async def commits() -> Outcome:
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            return ok("committed")
        return ok()

    assert (await guarded(call({}, timeout_s=0.05), commits())).result == "committed"


async def test_no_time_left_is_a_timeout_at_once() -> None:
    outcome = await guarded(call({}, timeout_s=-1), asyncio.sleep(5, ok()))
    assert outcome.error is not None
    assert outcome.error["kind"] == "timeout"


@pytest.mark.parametrize(("given", "limit"), [(None, 10.0), (3, 3.0), ("4", 4.0), (30, 10.0), ({"total": 2}, 2.0),
                                              ({"read": 1}, 10.0)])
def test_the_shorter_time_counts(given, limit) -> None:
    assert time_limit(call({}, spec={"timeout": given}, timeout_s=10)) == limit


@pytest.mark.parametrize("given", ["soon", 0, -1, True, [1]])
async def test_a_timeout_that_is_none_is_a_mistake(given) -> None:
    outcome = await guarded(call({}, spec={"timeout": given}), asyncio.sleep(0, ok()))
    assert outcome.error is not None
    assert outcome.error["kind"] == "config"


def test_two_aliases_at_once_are_a_mistake() -> None:
    assert one_of({"a": None, "b": 0}, "a", "b") == ("b", 0)
    with pytest.raises(BadCall, match="a and b"):
        one_of({"a": 1, "b": 2}, "a", "b")
