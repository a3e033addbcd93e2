"""Whatever the router decides, its draft is the state that the log gives: it takes the one for the other, and whoever
loads or verifies folds."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.answers.rehearsal.order import Seeded
from shared.answers.rehearsal.setting import Faults
from shared.dsl.model.plan import Plan
from shared.engine.routing import decide as routing
from shared.engine.routing.state import Execution, evolve
from shared.engine.values.stored_values import shrink
from shared.events.readers import FOLDED
from shared.events.record import Entry, Record
from shared.events.stamp import seconds
from tests.property.test_engine_orders import by_chance, random_net
from tests.sim.books.playbooks import BOOKS, compiled
from tests.support.drafts import accepted
from tests.unit.answers.rehearsal.test_rehearsal import run_book


def check(plan: Plan, entries: Sequence[Entry], values: dict[str, Any]) -> int:
    """How many decisions after the first were compared."""
    count, state = 0, Execution(entries[0][1].execution_id)
    for seq, record in entries:
        if record.writer not in FOLDED["router"]:
            continue
        if record.writer == "router" and state.n:
            events, draft = routing.decided(plan, state, seconds(record.ts), values)
            small, blobs = shrink(state.execution_id, events)
            assert tuple(small) == record.events
            assert accepted(state, draft, record, seq)[1] == "", (blobs, record)
            count += 1
        state = evolve(state, record, seq)
    return count


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**9), cyclic=st.booleans())
def test_in_random_nets(seed: int, cyclic: bool) -> None:
    rng = random.Random(seed)
    plan = random_net(rng, cyclic=cyclic)
    assert check(plan, list(enumerate(by_chance(rng, plan).log, 1)), {})


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.name)
def test_in_the_playbooks_of_the_simulated_world(book: Any) -> None:
    plan = compiled(book.source).plan
    assert plan is not None
    found = run_book(book, book.payload(7), Seeded(book.name), Faults(crash=0.3, dup=0.3))
    assert check(plan, found.entries, found.values)


def test_a_draft_that_is_not_of_the_record_is_noticed() -> None:
    rng = random.Random(1)
    plan = random_net(rng, cyclic=False)
    (_, first), (seq, second), *_ = enumerate(by_chance(rng, plan).log, 1)
    before = evolve(Execution("x1"), first, 1)
    state = evolve(before, second, seq)
    events, draft = routing.decided(plan, state, seconds(second.ts))
    assert events
    draft.counts.clear()
    assert "the fold gives" in accepted(state, draft, _record(state, events, second), 9)[1]


def _record(state: Execution, events: Sequence[Any], like: Record) -> Record:
    return Record(state.execution_id, "router", state.n + 1, like.ts, tuple(events), state.as_of)
