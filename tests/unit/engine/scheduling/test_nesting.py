"""Loops within loops, and the loop of a task: what is iterated, what `iter` is, and what comes out."""

from typing import Any

import msgspec
import pytest

from shared.answers.verify.verify import verify
from shared.dsl.model.plan import Level
from shared.engine.pipeline import decide as pipeline
from shared.engine.scheduling import decide as scheduling
from shared.engine.scheduling import loops as scheduling_loops
from shared.engine.scheduling import nesting
from shared.engine.scheduling.nesting import Grown, Unusable, iter_at, nested
from shared.engine.values.stored_values import manifest_item, manifest_list, resolve
from shared.events import model as ev
from shared.events.outcome import Outcome, Ref, Result, failed, ok
from tests.unit.engine.support import Driver, plan_of

CITIES = "{cities: [{name: Ulm, hotels: [a, b]}, {name: Linz, hotels: []}, {name: Bern, hotels: [c]}]}"
NESTED = """
- step: start
  loop:
    in: "{{ workload.cities }}"
    iterator: city
    spec: {mode: parallel}
    loop:
      in: "{{ iter.city.hotels }}"
      iterator: hotel
  tool: {kind: noop, args: {a: "{{ iter.hotel }} {{ iter.parent.city }} {{ city }}"}}
"""
LEVELS = (Level("{{ x }}", "city"), Level("{{ y }}", "hotel"), Level("{{ z }}", "room"))


def seen(_step: str, _task: str, names: dict[str, Any]) -> Outcome:
    iter_ = names["iter"]
    return ok([names["city"]["name"], names["hotel"], iter_["index"], iter_["count"], iter_["parent"]["index"],
               names["loop_index"]])


def checked(run: Driver) -> Driver:
    """Every decision follows from the log. The driver's worker does not claim its runs."""
    found = [each for each in verify("x1", list(enumerate(run.log, 1)), lambda _: run.plan, {})
             if "without step.started" not in each.message]
    assert not found
    return run


def test_an_inner_loop_is_part_of_one_run_and_its_results_are_nested_like_the_elements() -> None:
    run = checked(Driver(plan_of(NESTED, CITIES), seen).run())
    (started,), (done,) = run.find(ev.LoopStarted), run.find(ev.LoopDone)
    assert (started.count, done.count) == (3, 3)
    assert done.result.value["results"] == [
        [["Ulm", "a", 0, 2, 0, 0], ["Ulm", "b", 1, 2, 0, 1]], [], [["Bern", "c", 0, 1, 2, 0]],
    ]


def test_an_inner_loop_without_elements_is_done_at_once() -> None:
    run = checked(Driver(plan_of(NESTED, "{cities: [{name: Ulm, hotels: []}]}"), seen).run())
    assert run.find(ev.LoopDone)[0].result.value == {"results": [[]], "count": 0, "failed": 0}


@pytest.mark.parametrize("sizes", [[2, 0, 3], [0, 0], [0, 4, 0]])
def test_every_iteration_of_three_levels_knows_where_it_stands(sizes: list[int]) -> None:
    def elements(level: Level, parent: dict[str, Any]) -> list[Any]:
        if level.iterator == "city":
            return list(range(len(sizes)))
        if level.iterator == "hotel":
            return [f"h{n}" for n in range(sizes[parent["city"]])]
        return [f"r{n}" for n in range(parent["index"] + 1)]

    grown = Grown(LEVELS, elements)
    expected = [(city, hotel, room) for city, size in enumerate(sizes) for hotel in range(size)
                for room in range(hotel + 1)]
    found = [iter_at(LEVELS, grown.items, index) for index in range(grown.count)]
    assert [(i["parent"]["parent"]["index"], i["parent"]["index"], i["index"]) for i in found] == expected
    assert all(i["room"] == f"r{i['index']}" and i["parent"]["count"] == sizes[i["parent"]["parent"]["city"]]
               for i in found)
    assert nested(3, grown.items, list(expected)) == [
        [[(city, hotel, room) for room in range(hotel + 1)] for hotel in range(size)]
        for city, size in enumerate(sizes)]


def test_elements_of_all_levels_together_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nesting, "MAX_ITERATIONS", 5)
    with pytest.raises(Unusable, match="over 5"):
        Grown(LEVELS[:2], lambda _level, _parent: [1, 2])


def test_an_element_with_those_around_it_must_fit_into_a_command() -> None:
    half = scheduling_loops.MAX_ITEM_BYTES // 2
    for size, status in ((half - 100, "completed"), (half + 1, "failed")):
        text = NESTED.replace('"{{ iter.city.hotels }}"', f"[\"{{{{ 'x' * {size} }}}}\"]")
        run = checked(Driver(plan_of(text, "{cities: [1]}"), lambda *_: ok(1)).run())
        assert run.state.status == status
        assert [event.error["kind"] for event in run.find(ev.StepFailed)] == (["limit"] if status == "failed" else [])


def test_a_result_kept_by_reference_is_found_in_nested_results() -> None:
    checksum = "a1" * 32
    ref = Ref("nats", f"x/{checksum}", checksum, 9)
    inner = manifest_list([1, manifest_item(Result(None, "value", ref))])
    whole = Result({"results": [[1], inner], "count": 3, "failed": 0}, "loop")
    assert resolve(whole, {checksum: "large"}).value["results"] == [[1], [1, "large"]]
    for value in ({"$ref": 7}, {"$ref": {"key": "a/../b"}}, {"$loop": 7}):  # some tool's own
        assert resolve(Result({"results": [value]}, "loop"), {}).value["results"] == [value]
    looped = manifest_item(Result({"results": [1, 2], "count": 2}, "loop"))
    assert looped == [1, 2]


def test_a_value_that_looks_like_a_reference_is_a_value() -> None:
    forged = {"$ref": {"store": "nats", "key": f"x/{'a1' * 32}", "checksum": "a1" * 32, "size": 9}}
    for value in (forged, {"$loop": [forged]}, {"$value": forged}, {"$value": {"$value": 1}}, [forged]):
        stood = manifest_item(Result(value, "value"))
        assert resolve(Result({"results": [stood]}, "loop"), {}).value["results"] == [value]
        inner = manifest_list([1, stood])
        assert resolve(Result({"results": [inner]}, "loop"), {}).value["results"] == [[1, value]]


# -- the loop of a task ----------------------------------------------------------------------

ROOMS = """
- step: start
  loop: {in: [h1, h2], iterator: hotel, spec: {mode: parallel}}
  tool:
    - {name: before, kind: noop, spec: {policy: {rules: [{else: {then: {do: continue, set_iter: {page: 7}}}}]}}}
    - name: room
      kind: noop
      loop: {in: "{{ [iter.page, iter.page + 1] }}", iterator: number}
      spec: RULES
    - {name: last, kind: noop, args: {all: "{{ room }}"}}
"""


def rooms(rules: str = "{}") -> Any:
    return plan_of(ROOMS.replace("RULES", rules))


def room(_step: str, task: str, names: dict[str, Any]) -> Outcome:
    if task == "room":
        iter_ = names["iter"]
        return ok([iter_["number"], iter_["index"], iter_["parent"]["hotel"], names["hotel"], iter_["parent"]["index"]])
    return ok(list(names["room"]) if task == "last" else None)


def test_a_task_with_a_loop_is_called_once_per_element_in_order() -> None:
    run = checked(Driver(rooms(), room).run())
    assert run.find(ev.LoopDone)[0].result.value["results"] == [
        [[7, 0, "h1", "h1", 0], [8, 1, "h1", "h1", 0]], [[7, 0, "h2", "h2", 1], [8, 1, "h2", "h2", 1]],
    ]
    assert [(e.element, e.of) for e in run.find(ev.TaskDone) if e.task == "room"] == [(0, 2), (1, 2)] * 2


def test_whoever_takes_over_goes_on_with_the_element_at_hand() -> None:
    run = Driver(rooms(), room)
    run.control()
    command = run.queue[0]
    step = run.plan.steps["start"]
    progress = pipeline.begin(step, command, {})
    for event in run.perform(command)[:2]:  # before, and the first element
        progress = pipeline.evolve(step, progress, event)
    assert (progress.task, progress.each.at if progress.each else -1) == ("room", 1)
    assert pipeline.around(command, progress, {})["iter"]["page"] == 7


def test_set_iter_stays_with_the_element_while_it_is_tried_again() -> None:
    def flaky(step: str, task: str, names: dict[str, Any]) -> Outcome:
        if task == "room" and "tried" not in names["iter"]:
            return failed("x", "again")
        return room(step, task, names)

    rules = "{policy: {rules: [{when: \"{{ outcome.status == 'error' }}\", then: " \
            "{do: retry, attempts: 2, set_iter: {tried: true}}}]}}"
    run = checked(Driver(rooms(rules), flaky).run())
    assert len(run.find(ev.TaskRetried)) == 4
    assert run.find(ev.LoopDone)[0].result.value["results"][0][1] == [8, 1, "h1", "h1", 0]


def test_a_failed_element_fails_the_run_and_says_which_it_was() -> None:
    def broken(_step: str, task: str, names: dict[str, Any]) -> Outcome:
        return failed("x", "no") if task == "room" and names["iter"]["index"] == 1 else ok(None)

    (error,) = [event.error for event in checked(Driver(rooms(), broken).run()).find(ev.StepFailed)]
    assert (error["task"], error["element"]) == ("room", 1)


def test_a_jump_out_of_a_tasks_loop_leaves_the_results_so_far() -> None:
    rules = "{policy: {rules: [{else: {then: {do: jump, to: last}}}]}}"
    run = checked(Driver(rooms(rules), room).run())
    assert run.find(ev.LoopDone)[0].result.value["results"][0] == [[7, 0, "h1", "h1", 0]]


@pytest.mark.parametrize(("items", "status", "kind"), [
    ("[]", "completed", ""), ('"{{ 5 }}"', "failed", "loop"), ('"{{ nowhere }}"', "failed", "template"),
    ('"{{ range(10001) | list }}"', "failed", "limit"),
])
def test_a_tasks_loop_without_usable_elements_does_not_call_it(items: str, status: str, kind: str) -> None:
    def never(*_: Any) -> Outcome:
        raise AssertionError("called")

    plan = plan_of("- step: start\n  tool: [{name: a, kind: noop, loop: {in: " + items + ", iterator: x}}]")
    run = checked(Driver(plan, never).run())
    assert run.state.status == status
    assert [event.error["kind"] for event in run.find(ev.StepFailed)] == ([kind] if kind else [])


def test_an_iteration_does_not_carry_what_only_loop_in_reads() -> None:
    text = """
    - step: start
      loop: {in: "{{ workload.items }}", iterator: item, spec: {mode: parallel}}
      tool: {kind: noop, args: {a: "{{ workload.b }}"}}
    """
    run = Driver(plan_of(text, "{items: [1, 2], b: 3}"))
    run.control()
    (loop,) = run.schedule.loops.values()
    ref = Ref("nats", "x1/sum", "sum", 9)
    values = {"sum": msgspec.to_builtins(loop.event.scope)}
    loop.event = msgspec.structs.replace(loop.event, scope=ev.Scope(), scope_ref=ref)
    (command,) = scheduling.loop_commands(run.plan.steps["start"], run.schedule, loop, [0], values, fresh=True)
    assert command.scope_ref is None
    assert command.scope.workload == {"b": 3}
