"""Any point of a log: the state there, what comes next, and what an expression gives."""

import json
from typing import Any

import pytest

from shared.answers.debug.moment import Moment, position_of
from shared.answers.debug.scope import NoSuchRun, evaluated, key_of
from shared.answers.debug.shape import shape
from shared.answers.history.history import Key
from shared.answers.rehearsal.rehearse import rehearse
from shared.answers.rehearsal.setting import Opening
from shared.answers.rehearsal.types import Answered, Need, Rehearsed, Took, Wish
from shared.dsl.model.plan import Plan
from shared.errors import TemplateError
from shared.events import model as ev
from shared.events.outcome import failed, ok
from shared.events.record import event_type
from shared.tools import registry
from shared.tools.testing.effectless import natural
from tests.sim.books.playbooks import BOOKS, compiled
from tests.unit.answers.rehearsal.test_rehearsal import simulated
from tests.unit.engine.support import plan_of

ORDERS = """
- step: start
  tool:
    - {name: fetch, kind: http, url: "https://x.test"}
    - name: sum
      kind: python
      code: "-"
      spec:
        policy:
          rules:
            - {when: "{{ outcome.error }}", then: {do: retry, attempts: 2, delay: 60, set_ctx: {tries: {$add: 1}}}}
  next: {arcs: [{step: each, args: {sum: "{{ start }}"}}]}
- step: each
  loop: {in: "{{ workload.lines }}", iterator: line, spec: {mode: parallel, max_in_flight: 2}}
  tool: {name: save, kind: python, code: "-", args: {line: "{{ iter.line }}"}}
  next: {arcs: [{step: ask}]}
- step: ask
  tool: {kind: signal, signal: go}
"""


def answer(need: Need) -> Answered:
    if need.kind == "http":
        return Took(ok({"status_code": 200, "headers": {}, "data": [1, 2]}, shape="http"), 1.0)
    if need.task == "sum":
        return failed("flaky", "no") if need.attempt == 1 else Took(ok(3), 1.0)
    return natural(need) or Took(ok({"saved": need.config["args"]["line"]}), 1.0 + need.index)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of(ORDERS, "{lines: [a, b, c]}")


@pytest.fixture(scope="module")
def recorded(plan: Plan) -> Rehearsed:
    opening = Opening(execution_id="e1", at=1_800_000_000.0)
    found = rehearse(plan, answer, registry.specs(), opening, wishes=[Wish(ev.SignalReceived("go", "yes"), 1000.0)])
    assert found.status == "completed"
    return found


def at(recorded: Rehearsed, plan: Plan, wanted: type[ev.Base], nth: int = 1) -> Moment:
    """Right after the record with the nth such event."""
    places = [place for place, (_, record) in enumerate(recorded.entries, 1)
              for event in record.events if isinstance(event, wanted)]
    return Moment("e1", recorded.entries, places[nth - 1], lambda _digest: plan, recorded.values)


def test_a_run_is_shown_with_its_task_attempt_and_lease(recorded: Rehearsed, plan: Plan) -> None:
    found = shape(at(recorded, plan, ev.TaskRetried))
    [run] = found["runs"]
    assert (run["run_id"], run["state"], run["task"], run["attempt"]) == ("start:1", "waiting", "sum", 2)
    assert (run["worker"], run["epoch"]) == ("worker-1", [1, 1])
    assert run["tasks"]["fetch"] == {"status_code": 200, "headers": {}, "data": [1, 2]}
    assert run["set_ctx"] == [{"tries": {"$add": 1}}]
    assert found["ctx"] == {}, "its writes become visible when it ends"
    [wait] = found["waits"]
    assert wait["task"] == "sum"
    assert wait["until"] == found["next"]["due"]


def test_a_loop_is_shown_with_its_window(recorded: Rehearsed, plan: Plan) -> None:
    moment = at(recorded, plan, ev.IterationDone)
    found = shape(moment)
    [loop] = found["loops"]
    assert (loop["count"], loop["max_in_flight"], loop["next"], loop["done"]) == (3, 2, 2, 1)
    assert [(each["index"], each["task"], each["iter"]["line"]) for each in loop["iterations"]] == [(1, "save", "b")]
    assert [event["event_type"] for event in found["next"]["scheduler"]] == ["loop.iteration.started"]
    assert [(each["run_id"], each["index"]) for each in found["next"]["commands"]] == [("each:1", 1)]
    assert found["ctx"] == {"tries": 1}
    assert found["results"] == {"start": 3}


def test_a_wait_is_shown_with_what_it_waits_for(recorded: Rehearsed, plan: Plan) -> None:
    found = shape(at(recorded, plan, ev.TaskWaiting, nth=2))
    assert [(wait["run_id"], wait["for"]) for wait in found["waits"]] == [("ask:1", "for signal go")]


def test_expressions_see_what_templates_saw(recorded: Rehearsed, plan: Plan) -> None:
    moment = at(recorded, plan, ev.IterationDone)
    assert evaluated(moment, "{{ start + ctx.tries }}") == 4
    assert evaluated(moment, "workload.lines | length") == 3, "braces may be left out"
    assert evaluated(moment, "line in {{ iter.index }}", Key("each:1", 1)) == "line in 1"
    assert evaluated(moment, "{{ [line, args.sum, _task] }}", Key("each:1", 1)) == ["b", 3, "save"]
    assert evaluated(moment, "{{ fetch.data }}", Key("start:1")) == [1, 2], "also of a run that is over"
    last = Moment("e1", recorded.entries, len(recorded.entries), lambda _digest: plan, recorded.values)
    assert evaluated(last, "{{ [line, save.saved] }}", Key("each:1", 2)) == ["c", "c"], "and of a loop that is over"
    early = at(recorded, plan, ev.StepScheduled)
    with pytest.raises(TemplateError, match="'start' is undefined"):
        evaluated(early, "{{ start + 1 }}")
    with pytest.raises(NoSuchRun, match=r"no run each:1\.1 with tasks at record #1"):
        evaluated(early, "{{ line }}", Key("each:1", 1))
    with pytest.raises(NoSuchRun, match=r"it is a loop, name an iteration such as each:1\.0"):
        evaluated(moment, "{{ line }}", Key("each:1"))


def test_secrets_are_not_in_the_log(recorded: Rehearsed, plan: Plan) -> None:
    with pytest.raises(TemplateError, match="keychain values are never in the log"):
        evaluated(at(recorded, plan, ev.StepScheduled), "{{ keychain.api.key }}")


def test_what_the_router_would_decide_is_what_it_decided(recorded: Rehearsed, plan: Plan) -> None:
    """With one thing at a time, the record after a report is the decision that follows from it."""
    checked = 0
    for place, (_, record) in enumerate(recorded.entries[1:], 1):
        if record.writer == "router":
            moment = Moment("e1", recorded.entries, place, lambda _digest: plan, recorded.values)
            assert [event_type(event) for event in moment.router_next()] == [event_type(e) for e in record.events]
            checked += 1
    assert checked >= 3


def test_places_are_shown_with_their_keys() -> None:
    plan = compiled(next(book.source for book in BOOKS if book.name == "sim/places")).plan
    assert plan is not None
    found = rehearse(plan, simulated, registry.specs(), Opening(execution_id="e1"))
    moment = Moment("e1", found.entries, 1, lambda _digest: plan, found.values)
    assert shape(moment)["places"] == [{"key": "door", "run_id": "start:1", "index": -1, "granted": False}]
    assert not shape(moment)["next"]["commands"], "nobody has it before it holds its place"
    shown = shape(Moment("e1", found.entries, 2, lambda _digest: plan, found.values))
    assert [place["granted"] for place in shown["places"]] == [True]
    assert [each["run_id"] for each in shown["next"]["commands"]] == ["start:1"]


def test_local_loops_and_cursors_are_shown() -> None:
    shown = []
    for name in ("sim/local", "sim/cursor"):
        book = next(book for book in BOOKS if book.name == name)
        plan = compiled(book.source).plan
        assert plan is not None
        found = rehearse(plan, simulated, registry.specs(), Opening(execution_id="e1", payload=book.payload(5)))
        middle = next(place for place, (_, record) in enumerate(found.entries, 1)
                      for event in record.events if isinstance(event, ev.IterationDone))
        [loop] = shape(Moment("e1", found.entries, middle, lambda _digest, plan=plan: plan, found.values))["loops"]
        shown.append((loop["local"], loop["cursor"], {each["worker"] for each in loop["iterations"]}))
    (local, none, workers), (spread, cursor, _) = shown
    assert (local, none, workers) == (True, None, {"worker-1"}), "one worker has all of it"
    assert (spread, cursor) == (False, {"claimed": 5, "frames": 2, "open": False, "dry": False})


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.name)
def test_every_point_of_every_history_can_be_shown(book: Any) -> None:
    plan = compiled(book.source).plan
    assert plan is not None
    found = rehearse(plan, simulated, registry.specs(), Opening(execution_id="e1", payload=book.payload(4)))
    for position in range(1, len(found.entries) + 1):
        moment = Moment("e1", found.entries, position, lambda _digest: plan, found.values)
        shown = shape(moment)
        json.dumps(shown)
        for run in shown["runs"]:
            if run["pool"] and not run["loop"]:
                evaluated(moment, "{{ execution_id }}", key_of(run["run_id"]))
    assert shown["status"] == found.status
    assert not shown["next"]["router"]


def test_a_point_is_a_sequence_a_number_or_a_time(recorded: Rehearsed) -> None:
    entries = [(seq * 10, record) for seq, record in recorded.entries]
    assert position_of(entries, "30") == 3
    assert position_of(entries, "39") == 3, "the last one before"
    assert position_of(entries, "#2") == 2
    assert position_of(entries, entries[-1][1].ts) == len(entries)
    for wrong in ("9", "#0", f"#{len(entries) + 1}", "2001-01-01T00:00:00Z"):
        with pytest.raises(ValueError, match="is outside the log"):
            position_of(entries, wrong)
    with pytest.raises(ValueError, match="neither a sequence, nor #n, nor an RFC 3339 time"):
        position_of(entries, "yesterday")


def test_a_run_is_written_with_its_number() -> None:
    assert key_of("fetch:2") == Key("fetch:2")
    assert key_of("fetch:2.7") == Key("fetch:2", 7)
    for wrong in ("fetch", "fetch:x", ":1", "fetch:1.x", "fetch:1."):
        with pytest.raises(ValueError, match="write STEP:NUMBER"):
            key_of(wrong)
