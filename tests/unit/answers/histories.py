"""Histories that the real services wrote on a good day, and ways to tell them otherwise."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from shared.answers.verify.verify import Rule, Violation, verify
from shared.bus import topology
from shared.events.record import Record
from tests.sim.checks import PLANS, read_histories, read_values
from tests.sim.run import live_in_peace
from tests.sim.world import World

Entries = list[tuple[int, Record]]
NAMES = ("chain", "fan", "parallel", "pages", "retry", "unhandled", "fail_fast", "large")
BOOKS = tuple(f"sim/{name}" for name in NAMES)
CHAIN, FAN, PARALLEL, PAGES, RETRY, UNHANDLED, FAIL_FAST, LARGE = (f"e{k}" for k in range(len(BOOKS)))


@cache
def _world() -> World:
    world = live_in_peace(*BOOKS)
    assert world.problems == []
    return world


@cache
def good_day() -> tuple[dict[str, Entries], dict[str, Any]]:
    return read_histories(_world()), read_values(_world())


def history(execution_id: str) -> Entries:
    return list(good_day()[0][execution_id])


def check(execution_id: str, entries: Entries) -> list[Violation]:
    return verify(execution_id, entries, PLANS.__getitem__, good_day()[1])


def rules(execution_id: str, entries: Entries) -> set[Rule]:
    return {violation.rule for violation in check(execution_id, entries)}


def at(entries: Entries, wanted: type[Any], which: int = 0) -> int:
    """The place of the record with the event of that kind."""
    found = [k for k, (_, record) in enumerate(entries) if any(isinstance(event, wanted) for event in record.events)]
    return found[which]


def change(entries: Entries, wanted: type[Any], which: int = 0, **fields: Any) -> Entries:
    """The history with one event of that kind told otherwise."""
    place = at(entries, wanted, which)
    seq, record = entries[place]
    events = list(record.events)
    k = next(k for k, event in enumerate(events) if isinstance(event, wanted))
    events[k] = replace(events[k], **fields)
    entries[place] = (seq, replace(record, events=tuple(events)))
    return entries


def rewrite(entries: Entries, place: int, make: Callable[[Record], Record]) -> Entries:
    seq, record = entries[place]
    entries[place] = (seq, make(record))
    return entries


def later(entries: Entries, record: Record) -> Entries:
    return [*entries, (entries[-1][0] + 1, record)]


@cache
def stored_values() -> dict[str, bytes]:
    """The messages of the results stream of that day, by subject."""
    stored = _world().broker.streams[topology.RESULTS].stored.values()
    return {each.message.subject: each.message.data for each in stored}


@pytest.fixture(scope="module", autouse=True)
def simulated() -> None:
    """The simulator has a loop of its own, and is asked before that of a test runs."""
    good_day()
    stored_values()
