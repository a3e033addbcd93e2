"""A rerun of what failed: a loop goes on with the iterations that did not succeed."""

from typing import Any

import pytest

from shared.answers.rerun import rerun
from shared.engine.scheduling.carried_loop import Todo
from shared.engine.values.stored_values import shrink
from shared.events import model as ev
from shared.events.outcome import Outcome, failed, ok
from tests.unit.engine.scheduling.test_nesting import checked
from tests.unit.engine.support import Driver, plan_of

LOOP = """
- step: start
  spec: {policy: {failure: FAILURE}}
  loop: {ITEMS, iterator: item, spec: SPEC}
  tool:
    kind: noop
    spec: {policy: {rules: [{when: "{{ outcome.error }}", then: {do: fail}},
      {else: {then: {do: continue, set_ctx: {seen: {$append: "{{ item }}"}}}}}]}}
  next: {arcs: [{step: after, when: "{{ event.name == 'loop.done' }}"}]}
- {step: after, tool: {kind: noop}}
"""
IN = 'in: "{{ workload.items }}"'
CURSOR = 'cursor: {kind: postgres, auth: db, claim: "SELECT {{ claim.size }}", frame: 3}'


def loop(spec: str = "{mode: parallel, max_in_flight: 3}", items: str = IN, failure: str = "{}") -> Any:
    source = LOOP.replace("FAILURE", failure).replace("SPEC", spec).replace("ITEMS", items)
    return plan_of(source, f"{{items: {list(range(8))}}}")


def work(*broken: int) -> Any:
    def one(step: str, _task: str, names: dict[str, Any]) -> Outcome:
        if step != "start":
            return ok(None)
        item = names["item"]
        return failed("x", "no") if item in broken else ok(item * 10)

    return one


def entries(run: Driver) -> list[tuple[int, Any]]:
    return list(enumerate(run.log, 1))


def rerun_of(run: Driver, now: Any, **fields: Any) -> Driver:
    restored = rerun.what_failed("x1", entries(run))
    assert isinstance(restored, ev.PlaybookRestored), restored
    return Driver(run.plan, now, restored=restored, **fields)


def done_in(run: Driver) -> list[int]:
    return [record.lease.index for record in run.log if record.lease for event in record.events
            if isinstance(event, ev.IterationDone)]


@pytest.mark.parametrize("spec", [
    "{mode: parallel, max_in_flight: 3}", "{mode: sequential}", "{policy: {exec: local}, mode: sequential}",
])
def test_only_the_iterations_that_did_not_succeed_run_again(spec: str) -> None:
    first = checked(Driver(loop(spec), work(2)).run())
    before = done_in(first)
    second = checked(rerun_of(first, work()).run())
    assert sorted([*before, *done_in(second)]) == list(range(8))
    (started,), (done,) = second.find(ev.LoopStarted), second.find(ev.LoopDone)
    assert (started.taken.of, started.taken.done, started.count) == ("x1", len(before), 8)
    assert (done.count, done.failed, done.result.value["results"]) == (8, 0, [0, 10, 20, 30, 40, 50, 60, 70])
    assert sorted(second.state.ctx["seen"]) == list(range(8))


def test_what_fails_again_can_be_run_again() -> None:
    run = checked(Driver(loop(), work(2, 3)).run())
    for broken in ((3, 5), (5, 6), ()):
        run = checked(rerun_of(run, work(*broken)).run())
    assert run.find(ev.LoopDone)[0].result.value["results"] == [0, 10, 20, 30, 40, 50, 60, 70]
    assert sorted(run.state.ctx["seen"]) == list(range(8))


def test_an_iteration_that_ended_after_its_loop_had_failed_counts_too() -> None:
    run = Driver(loop(), work(0))
    run.control()
    for command in list(run.queue):
        run.queue.remove(command)
        run.report(command, run.perform(command))
        if command.index == 0:
            run.control()
    run.run()
    assert sorted(done_in(run)) == [1, 2]
    second = checked(rerun_of(run, work()).run())
    assert sorted(done_in(second)) == [0, 3, 4, 5, 6, 7]
    assert sorted(second.state.ctx["seen"]) == list(range(8))
    assert second.find(ev.LoopStarted)[0].taken.ctx == ({"seen": {"$append": 1}}, {"seen": {"$append": 2}})


def test_the_rows_that_were_claimed_are_taken_over_and_claiming_goes_on() -> None:
    plan = loop("{mode: parallel, max_in_flight: 2}", CURSOR)
    first = checked(Driver(plan, work(4), rows=list(range(20))).run())
    left = first.rows
    second = checked(rerun_of(first, work(), rows=left).run())
    (done,) = second.find(ev.LoopDone)
    assert done.result.value["results"] == [number * 10 for number in range(20)]
    assert sorted([*done_in(first), *done_in(second)]) == list(range(20))


def test_a_loop_that_stops_counts_those_up_to_there() -> None:
    spec = '{mode: sequential, stop_when: "{{ iter.item == 5 and count == 6 and results | sum == 150 }}"}'
    first = checked(Driver(loop(spec), work(3)).run())
    second = checked(rerun_of(first, work()).run())
    (done,) = second.find(ev.LoopDone)
    assert (done.count, done.stopped, done.result.value["results"]) == (6, True, [0, 10, 20, 30, 40, 50])


def test_large_loops_are_taken_over_by_reference() -> None:
    first = checked(Driver(loop(), work(2)).run())
    restored = rerun.what_failed("x1", entries(first))
    assert isinstance(restored, ev.PlaybookRestored)
    taken = restored.tokens[0].loop
    assert taken is not None
    large = ev.Taken(
        of="x1", count=300, done=0, items=["x" * 10] * 300, items_ref=None, todo=list(range(300)), todo_ref=None,
        results=[None] * 300,
    )
    (small,), blobs = shrink("x2", [ev.PlaybookRestored("x1", tokens=(ev.Restart("start", {}, large),))])
    assert isinstance(small, ev.PlaybookRestored)
    found = small.tokens[0].loop
    assert found is not None
    assert (found.items, found.todo, found.results) == ([], [], [])
    refs = {ref.checksum for ref in (found.items_ref, found.todo_ref, found.results_ref) if ref is not None}
    assert refs == blobs.keys()
    assert len(refs) == 3


def test_todo_finds_what_is_left_in_spans() -> None:
    todo = Todo([1, 2, 5], 7)
    assert [index for index in range(10) if index in todo] == [1, 2, 5, 7, 8, 9]
    assert [todo.below(last) for last in (0, 1, 2, 3, 6, 7, 9)] == [0, 0, 1, 2, 3, 3, 5]
    spans, at = [], 0
    while (span := todo.span(at, 10, 2)) is not None:
        spans.append(span)
        at = span[0] + span[1]
    assert spans == [(1, 2), (5, 1), (7, 2), (9, 1)]
    assert todo.span(2, 5, 9) == (2, 1)
    assert Todo([], 4).span(0, 4, 9) is None
    assert Todo().span(3, 10, 4) == (3, 4)
