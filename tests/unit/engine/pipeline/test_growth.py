"""Values of `iter` that grow: what an event adds, where it stands, and that every holder of a run comes to the same."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from shared.engine.pipeline import effects as ef
from shared.engine.pipeline.history import History
from shared.engine.pipeline.machine import RunMachine
from shared.engine.values.growth import Grown, grow, place_of, shown, sketched, whole, without
from shared.engine.values.stored_values import Missing
from shared.events import model as ev
from shared.events.command import Command
from shared.events.fields import Growth
from shared.events.outcome import Outcome, ok
from shared.events.record import Lease
from shared.tools import registry
from tests.unit.engine.support import Driver, plan_of

PAGES = """
- step: start
  spec: {policy: {limits: {max_payload_bytes: LIMIT}}}
  tool:
    - name: fetch
      kind: python
      code: "-"
      spec:
        policy:
          rules:
            - when: "{{ outcome.result.page < 5 }}"
              then: {do: jump, to: fetch, set_iter: {got: {$extend: "{{ outcome.result.rows }}"}}}
            - else: {then: {do: continue, set_iter: {got: {$extend: "{{ outcome.result.rows }}"}}}}
    - {name: last, kind: noop, spec: {policy: {rules: [
        {else: {then: {do: break, result: "{{ iter.got }}", set_ctx: {got: "{{ iter.got }}"}}}}]}}}
"""
WANTED = [f"row {page} {'x' * 300}" for page in range(1, 6)]


def page(number: int) -> Outcome:
    return ok({"page": number, "rows": [WANTED[number - 1]]})


class Worker:
    """Holds the run until it has written `most` records; keeps what is in the log and beside it."""

    def __init__(self, limit: int, most: int, log: list[tuple[ev.Event, ...]], stored: dict[str, bytes]) -> None:
        step = plan_of(PAGES.replace("LIMIT", str(limit))).steps["start"]
        command = Command("x1", "start:1", "start", "d", "default", 0)
        lease = Lease("start:1", "start", (len(log) + 1, 1), "w", -1, "default")
        self.machine = RunMachine(step, command, lease, registry.specs().__getitem__, {}, timed=False)
        self.log, self.stored, self.most = log, stored, most

    def run(self) -> bool:
        """Whether it came to the end."""
        steps = self.machine.run()
        try:
            effect = next(steps)
            while len(self.log) < self.most or not isinstance(effect, ef.Call):
                effect = steps.send(self.answer(effect))
        except StopIteration:
            return True
        return False

    def answer(self, effect: ef.Effect) -> Any:
        match effect:
            case ef.Flush():
                self.write()
            case ef.Finish(event=event):
                (ended,) = self.machine.notes.note(event)
                self.write()
                return ended
            case ef.Fresh():
                return None if self.log else 0.0
            case ef.Read():
                return History(tuple(event for record in self.log for event in record), self.machine.notes.lease.epoch)
            case ef.Bring(ref=ref):
                return msgspec.json.decode(self.stored[ref.checksum])
            case ef.Call():
                if effect.task.name != "fetch":
                    return 0.0, ok()
                done = sum(isinstance(event, ev.TaskDone) for record in self.log for event in record)
                return 0.0, page(done + 1)
            case ef.Now() | ef.TakeTurn():
                return 0.0
        return None

    def write(self) -> None:
        notes = self.machine.notes
        self.stored.update(notes.take_stored())
        if events := notes.take():
            self.log.append(tuple(events))
            notes.count(events)


@pytest.mark.parametrize("limit", [256, 131_072])
@pytest.mark.parametrize("most", range(1, 12))
def test_the_next_holder_goes_on_after_the_last_finished_page(limit: int, most: int) -> None:
    log: list[tuple[ev.Event, ...]] = []
    stored: dict[str, bytes] = {}
    first = Worker(limit, most, log, stored)
    assert first.run() or Worker(limit, 99, log, stored).run()
    (end,) = [event for record in log for event in record if isinstance(event, ev.StepDone)]
    found = end.result.value if end.result.ref is None else msgspec.json.decode(stored[end.result.ref.checksum])
    assert (found, end.result.into) == (WANTED, "got")
    pages = [event for record in log for event in record if isinstance(event, ev.TaskDone) and event.task == "fetch"]
    assert [each.grow for each in pages] == [(Growth("got", "extend", at=("rows",)),)] * 5
    assert all(each.set_iter == {} for each in pages)


def test_what_is_added_stands_once_in_its_event_and_large_parts_beside_the_log() -> None:
    log: list[tuple[ev.Event, ...]] = []
    stored: dict[str, bytes] = {}
    assert Worker(100_000, 99, log, stored).run()
    pages = [event for record in log for event in record if isinstance(event, ev.TaskDone) and event.task == "fetch"]
    assert all(len(msgspec.json.encode(each)) < 700 for each in pages)
    small: list[tuple[ev.Event, ...]] = []
    assert Worker(1024, 99, small, stored).run()
    (end,) = [event for record in small for event in record if isinstance(event, ev.StepDone)]
    assert end.result.ref is not None
    (patch,) = end.ctx
    assert patch["got"]["$stored"]["checksum"] == end.result.ref.checksum


def test_a_value_is_found_in_the_outcome_by_itself_alone() -> None:
    rows = ["a", "b"]
    result = {"status_code": 200, "data": {"items": rows, "same": ["a", "b"]}}
    assert place_of(rows, result) == ("data", "items")
    assert place_of(result, result) == ()
    assert place_of(list(rows), result) is None
    assert place_of("a", result) is None
    long = "z" * 100
    assert place_of(long, {"data": [1, long]}) == ("data", 1)
    assert place_of(rows, {"many": [[] for _ in range(5000)], "a": {"b": {"c": rows}}}) is None


@pytest.mark.parametrize(("how", "start", "added", "wanted"), [
    ("append", [1], [[2], 3], [1, [2], 3]), ("extend", [1], [[2], 3, None], [1, 2, 3]),
    ("extend", None, ["ab"], ["ab"]),
    ("merge", {"a": 1}, [{"b": 2}, {"a": 3}], {"a": 3, "b": 2}), ("merge", None, [{"b": 2}, "no"], {"b": 2}),
])
def test_parts_are_put_together_in_order(how: Any, start: Any, added: list[Any], wanted: Any) -> None:
    found = {"x": start}
    for value in added:
        found = grow(found, (Growth("x", how, value=value),), Outcome("ok"))
    assert shown(found, {}) == {"x": wanted}


def test_a_way_that_leads_nowhere_adds_nothing() -> None:
    found = grow({}, (Growth("x", "extend", at=("rows", 3, "y")),), ok({"rows": [1]}))
    assert shown(found, {}) == {"x": []}


def test_a_stored_part_is_asked_for_where_the_value_is_seen_and_not_before() -> None:
    log: list[tuple[ev.Event, ...]] = []
    assert Worker(1024, 99, log, {}).run()
    (ref,) = [event.result.ref for record in log for event in record if isinstance(event, ev.StepDone)]
    assert ref is not None
    found = grow({"n": 1}, (Growth("x", "extend", at=()),), replace(ok(), ref=ref))
    assert isinstance(found["x"], Grown)
    with pytest.raises(Missing):
        whole(found["x"], {})
    assert shown({"parent": found}, {ref.checksum: WANTED})["parent"] == {"n": 1, "x": WANTED}
    assert sketched(found)["x"][0]["ref"]["checksum"] == ref.checksum
    assert without({"parent": found, **found}) == {"parent": {"n": 1}, "n": 1}


REDUCED = """
- step: start
  tool:
    - name: one
      kind: noop
      spec: {policy: {rules: [
        {else: {then: {do: continue, set_iter: {n: 2, m: {a: 1}, looks: "{{ workload.odd }}"}}}}]}}
    - name: two
      kind: noop
      spec: {policy: {rules: [{else: {then: {do: continue, set_iter: {n: {$add: 5}, m: {MORE}}}}}]}}
    - {name: last, kind: noop, spec: {policy: {rules: [
        {else: {then: {do: break, result: "{{ [iter.n, iter.m, iter.looks] }}"}}}]}}}
"""


def test_every_reducer_works_in_iter_and_data_never_is_one() -> None:
    plan = plan_of(REDUCED.replace("MORE", "$merge: {b: 2}"), workload="{odd: {$add: 1}}")
    assert Driver(plan).run().state.results["start"].value == [7, {"a": 1, "b": 2}, {"$add": 1}]


def test_a_reducer_that_does_not_fit_is_the_rules_fault() -> None:
    run = Driver(plan_of(REDUCED.replace("MORE", "$append: 1"), workload="{odd: 0}")).run()
    assert run.state.error is not None
    assert run.state.error["message"] == "policy of task two: set_iter: $append cannot add to the mapping in iter.m"


WRITES = """
- step: start
  tool:
    - name: fetch
      kind: noop
      spec:
        policy:
          rules:
            - when: "{{ ctx.n | default(0) < 200 }}"
              then: {do: jump, to: fetch, set_ctx: {n: {$add: 1}, last: "{{ workload.text }}"}}
            - else: {then: {do: continue, set_ctx: {last: "end"}}}
"""
LOOP = """
- step: start
  loop: {in: "{{ range(200) | list }}", iterator: x, spec: {mode: sequential}}
  tool: {kind: noop, spec: {policy: {rules: [
    {else: {then: {do: continue, set_ctx: {last: "{{ workload.text }}{{ x }}"}}}}]}}}
"""


@pytest.mark.parametrize(("workflow", "last"), [(WRITES, "end"), (LOOP, "x" * 5000 + "199")], ids=["run", "loop"])
def test_the_limit_of_ctx_counts_what_ctx_is(workflow: str, last: str) -> None:
    """A megabyte is written, over and over to the same key."""
    driver = Driver(plan_of(workflow, workload="{text: " + "x" * 5000 + "}")).run()
    assert (driver.state.status, driver.state.error) == ("completed", None)
    assert driver.state.ctx["last"] == last
    assert driver.violations() == []
