"""Signals that wait for a task: how many are kept, and how much of them one decision looks at. Units and events are
counted, never time."""

from functools import cache
from typing import Any

import pytest

from shared.answers.history.history import History
from shared.answers.verify.decisions import check_decisions
from shared.dsl.compile import compile_playbook
from shared.dsl.templates import json_schema
from shared.dsl.templates.budget import MAX_DECISION_WORK, Budget
from shared.engine.scheduling import decide as scheduling
from shared.engine.scheduling import signals
from shared.engine.scheduling.signals import FULL, MAX_REFUSED, MAX_SIGNAL_BYTES, MAX_SIGNALS
from shared.engine.scheduling.state import Schedule, evolve
from shared.events import model as ev
from shared.events.record import Entry, Lease, Record, encode
from shared.events.stamp import stamp
from shared.tools import registry

NOW = 1_800_000_000.0
COSTLY = {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$", "minLength": 1}, "uniqueItems": True}
LONG = [f"abcdefghij{n}" for n in range(600)]
MAX_RECORD_BYTES = 1_000_000


class Bench:
    """A run that waits for signals, the log of it, and a scheduler that decides whenever something is due."""

    def __init__(self) -> None:
        self.state, self.entries, self.now = Schedule("x"), list[Entry](), NOW
        self.add("router", ev.StepScheduled("start:1", "start", ("t1",), "digest", "default"))

    def add(self, writer: Any, *events: ev.Event, lease: Lease | None = None, source: str = "") -> Record:
        seq = len(self.entries) + 1
        n = self.state.n + 1 if writer == "scheduler" else 1
        as_of = self.state.as_of if writer == "scheduler" else 0
        record = Record("x", writer, n, stamp(self.now), events, as_of, lease, source)
        self.entries.append((seq, record))
        self.state = evolve(self.state, [(seq, record)])
        return record

    def signal(self, source: str, payload: Any, name: str = "go") -> None:
        self.add("control", ev.SignalReceived(name, payload, "me"), source=source)

    def waits(self, schema: dict[str, Any] | None = None, **fields: Any) -> None:
        event = ev.TaskWaiting("call", 1, wait="call/1", signal="go", schema=schema or {}, **fields)
        self.add("waiting", event, lease=Lease("start:1", "start", (1, 1), "w"))

    def decided(self, rule: signals.Rule = signals.TODAY) -> list[ev.Event]:
        found = scheduling.decide(_plan, self.state, self.now, rule=rule)
        if found:
            self.add("scheduler", *found)
        return found

    def turns(self) -> list[list[ev.Event]]:
        """All decisions until nothing is due."""
        found = []
        while events := self.decided():
            found.append(events)
            assert len(found) < 2 * MAX_SIGNALS
        return found

    def violations(self) -> list[str]:
        return [str(each) for each in check_decisions(History("x", self.entries), _plan, {})  # type: ignore[arg-type]  # no loop
                if "scheduler" in str(each)]


BOOK = b"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: signals, path: a/signals }
workflow:
- step: start
  tool:
  - call: { kind: signal, signal: go }
"""


@cache
def _plan(_: str) -> Any:
    return compile_playbook(BOOK, kinds=registry.specs()).plan


def test_a_decision_checks_signals_within_its_budget_and_leaves_the_others_to_the_next() -> None:
    bench = Bench()
    for n in range(800):
        bench.signal(f"s{n}", LONG)
    bench.waits(COSTLY)
    with Budget(None) as spent:
        first = bench.decided()
    assert 0 < len(first) < 10
    assert spent.used <= 2 * json_schema.MAX_CHECK_WORK < MAX_DECISION_WORK
    due = scheduling.due(bench.state)
    assert due is not None
    assert due <= bench.now
    assert isinstance(first[0], ev.SignalRejected)
    sources = [event.source for event in first if isinstance(event, ev.SignalRejected)]
    assert sources == [f"s{n}" for n in range(len(first))]


def test_every_signal_is_looked_at_once_in_its_order_and_the_log_verifies() -> None:
    bench = Bench()
    for n in range(8):
        bench.signal(f"s{n}", LONG)
    bench.signal("good", ["a", "b"])
    bench.waits(COSTLY)
    turns = bench.turns()
    assert len(turns) > 4
    sources = [event.source if isinstance(event, ev.SignalRejected) else event.signal  # type: ignore[union-attr]
               for turn in turns for event in turn]
    assert sources == [*(f"s{n}" for n in range(8)), "good"]
    assert isinstance(turns[-1][-1], ev.TaskResumed)
    assert (bench.state.signals, bench.state.signal_bytes) == ({}, {})
    assert scheduling.due(bench.state) is None
    assert bench.violations() == []


def test_the_record_of_a_decision_stays_small_whatever_signals_say() -> None:
    bench = Bench()
    for n in range(MAX_SIGNALS):
        bench.signal(f"s{n}", "\x01" * 400, "go")
    bench.waits({"enum": ["x"]})
    turns = bench.turns()
    assert 10 <= len(turns) <= 40
    assert max(len(encode(record)) for _, record in bench.entries if record.writer == "scheduler") < MAX_RECORD_BYTES


def test_payloads_that_end_waits_fit_into_the_record() -> None:
    state = Schedule("x")
    records: list[Entry] = []
    for n in range(30):
        run = f"start:{n + 1}"
        schedule = ev.StepScheduled(run, "start", (f"t{n}",), "digest", "default")
        waiting = ev.TaskWaiting("call", 1, wait="call/1", signal="go")
        lease = Lease(run, "start", (1, 1), "w")
        for record in (Record("x", "router", 1, stamp(NOW), (schedule,)),
                       Record("x", "waiting", 1, stamp(NOW), (waiting,), 0, lease),
                       Record("x", "control", 1, stamp(NOW), (ev.SignalReceived("go", "x" * 120_000),), source=run)):
            records.append((len(records) + 1, record))
    state = evolve(state, records)
    ended, turns = 0, 0
    while events := scheduling.decide(_plan, state, NOW):
        record = Record("x", "scheduler", state.n + 1, stamp(NOW), tuple(events), state.as_of)
        assert len(encode(record)) < MAX_RECORD_BYTES
        state = evolve(state, [(1000 + turns, record)])
        ended, turns = ended + len(events), turns + 1
    assert ended == 30


def test_a_wait_is_over_in_time_though_signals_are_left() -> None:
    bench = Bench()
    for n in range(50):
        bench.signal(f"s{n}", LONG)
    bench.waits(COSTLY, until=stamp(NOW + 5))
    bench.now = NOW + 6
    last = bench.decided()[-1]
    assert isinstance(last, ev.TaskResumed)
    assert last.outcome is not None
    assert (last.outcome.error or {})["kind"] == "timeout"
    assert bench.decided() == []
    assert bench.violations() == []


def test_signals_over_the_number_that_is_kept_are_rejected_with_the_reason() -> None:
    bench = Bench()
    for n in range(MAX_SIGNALS + MAX_REFUSED + 7):
        bench.signal(f"s{n}", n)
    turns = bench.turns()
    assert [len(turn) for turn in turns] == [MAX_REFUSED, 7]
    assert all(isinstance(event, ev.SignalRejected) and event.error == FULL for turn in turns for event in turn)
    assert scheduling.due(bench.state) is None
    bench.signal("s1", 1)  # the same again is no new one
    assert bench.decided() == []
    assert bench.violations() == []
    bench.waits()
    (resumed,) = bench.decided()
    assert isinstance(resumed, ev.TaskResumed)
    assert resumed.signal == "s0"


def test_signals_over_the_bytes_that_are_kept_are_rejected_with_the_reason() -> None:
    bench = Bench()
    each = 120_000
    fit = MAX_SIGNAL_BYTES // (each + 2)
    for n in range(fit + 3):
        bench.signal(f"s{n}", "x" * each)
    assert bench.decided() == [ev.SignalRejected(f"s{n}", "go", FULL) for n in range(fit, fit + 3)]
    assert sum(bench.state.signal_bytes.values()) <= MAX_SIGNAL_BYTES
    bench.signal("small", 1)
    assert bench.turns() == []
    assert bench.violations() == []


def test_a_paused_execution_looks_at_no_signals_and_is_not_due() -> None:
    bench = Bench()
    bench.signal("s", 1)
    bench.waits()
    bench.add("router", ev.PlaybookPaused())
    assert bench.decided() == []
    assert scheduling.due(bench.state) is None


@pytest.mark.parametrize("extra", [0, 5])
def test_a_log_written_before_there_was_a_bound_verifies(extra: int) -> None:
    bench = Bench()
    for n in range(MAX_SIGNALS + extra):
        bench.signal(f"s{n}", n)
    bench.waits({"type": "string"})
    assert len(bench.decided(signals.FORMER)) == MAX_SIGNALS
    bench.signal("good", "yes")
    assert len(bench.decided(signals.FORMER)) == 1
    assert bench.violations() == []


def test_a_decision_that_leaves_out_a_signal_does_not_verify() -> None:
    bench = Bench()
    for n in range(3):
        bench.signal(f"s{n}", n)
    bench.waits({"type": "string"})
    found = scheduling.decide(_plan, bench.state, bench.now)
    assert len(found) == 3
    bench.add("scheduler", found[0], found[2])
    assert bench.violations() != []


def test_patterns_of_a_schema_are_bounded_together() -> None:
    pattern = "[a-z]{1,9}-" * 40
    few = {"allOf": [{"pattern": f"^{n}{pattern}"} for n in range(5)]}
    many = {"allOf": [{"pattern": f"^{n}{pattern}"} for n in range(50)]}
    assert json_schema.problem(few) == ""
    assert "too long together" in json_schema.problem(many)
    assert json_schema.misfit("x", many, 500) == json_schema.problem(many)
