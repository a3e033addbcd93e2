"""describe, logs, result and ctx are drawn from the log alone: here from one that is played in memory."""

from typing import Any

import pytest

from services.cli.console import exits
from services.cli.console.exits import CliError
from services.cli.executions import values
from services.cli.executions.description import Portrait, shown
from services.cli.executions.log_lines import Teller
from shared.engine.values.stored_values import Missing
from shared.events import model as ev
from shared.events.outcome import Outcome, Ref, failed, ok
from shared.events.record import Record
from shared.events.stamp import stamp
from tests.unit.answers.why.stalls import PLAIN, Stall
from tests.unit.engine.support import NOW, Driver, plan_of

FLOW = """\
- step: start
  tool:
    - {name: fetch, kind: noop, spec: {policy: {rules: [
        {when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 2}},
        {else: {then: {do: continue, set_ctx: {n: 1}}}}]}}}
  next: {arcs: [{step: each}]}
- step: each
  loop: {in: [1, 2, 3], iterator: x, spec: {mode: parallel, max_in_flight: 3}}
  spec: {policy: {failure: {mode: best_effort}}}
  tool: {kind: noop}
  next: {arcs: [{step: last, when: "{{ true }}"}]}
- step: last
  tool: {kind: noop}
"""


def played() -> Driver:
    tries = iter([failed("http", "busy"), ok({"rows": [{"name": "ada"}]}, meta={"stdout": "got it\nall\n"})])

    def work(step: str, _task: str, names: dict[str, Any]) -> Outcome:
        if step == "start":
            return next(tries)
        if step == "each" and names["iter"]["x"] == 2:
            return failed("python", "no twos")
        return ok("text") if step == "last" else ok(names["iter"]["x"])

    return Driver(plan_of(FLOW), work).run()


def portrait(*records: Record) -> dict[str, Any]:
    found = Portrait("x1")
    for record in records:
        found.apply(record)
    return shown(found)


def test_each_run_has_its_tasks_attempts_and_loop() -> None:
    found = portrait(*played().log)
    start, each, last = found["runs"]
    assert (found["status"], start["status"], each["status"], last["status"]) == ("completed", "done", "done", "done")
    assert [(task["task"], task["attempts"], task["retried"]) for task in start["tasks"]] == [("fetch", 2, 1)]
    assert {**each["loop"]} == {"total": 3, "started": 3, "done": 2, "failed": 1}
    assert [(each["index"], each["error"]["message"]) for each in each["failures"]] == [(1, "no twos")]
    assert start["scheduled_at"] <= start["started_at"] <= start["finished_at"]


def test_each_lease_of_a_run_says_who_had_it_and_how_it_ended() -> None:
    stall = Stall(PLAIN)
    stall.says(ev.StepStarted(), worker="w0")
    stall.says(ev.StepStarted(), ev.LeaseReleased("the worker stops"), worker="w1", epoch=(1, 2))
    stall.says(ev.StepStarted(), worker="w2", epoch=(1, 3))
    (run,) = portrait(*stall.log)["runs"]
    assert [(held["worker"], held["ended"]) for held in run["held"]] == [
        ("w0", "lost"), ("w1", "handed back: the worker stops"), ("w2", "")]


LOCAL = """\
- step: start
  loop: {in: [1, 2, 3], iterator: x, spec: {policy: {exec: local}}}
  tool: {kind: noop}
"""


def test_a_lease_of_a_local_loop_goes_on_with_its_iterations_and_ends_with_it() -> None:
    stall = Stall(LOCAL)
    command = stall.queue.pop()
    stall.work_through(command, epoch=(1, 1), most=1)
    said = stall.log[-1].ts
    (run,) = portrait(*stall.log)["runs"]
    assert [(held["last"], held["ended"]) for held in run["held"]] == [(said, "")]
    stall.work_through(command, epoch=(1, 2))
    last = stall.log[-1].ts
    stall.control()
    found = portrait(*stall.log)
    assert found["status"] == "completed"
    assert [(held["last"], held["ended"]) for held in found["runs"][0]["held"]] == [(said, "lost"), (last, "done")]


def test_no_lease_of_an_execution_that_is_over_is_held() -> None:
    stall = Stall(PLAIN)
    stall.says(ev.StepStarted())
    ended = Record("x1", "router", 99, stamp(NOW), (ev.PlaybookProcessed("cancelled"),))
    (run,) = portrait(*stall.log, ended)["runs"]
    assert [held["ended"] for held in run["held"]] == ["cancelled"]


def test_who_asked_for_what_is_told_once() -> None:
    wish = Record("x1", "control", 1, stamp(NOW), (ev.CancelRequested("wrong", "ada"),), source="s1")
    signal = Record("x1", "control", 1, stamp(NOW), (ev.SignalReceived("go", None, "bob"),), source="s2")
    found = portrait(played().log[0], wish, wish, signal)
    assert [(each["what"], each["by"], each["reason"]) for each in found["control"]] == [
        ("cancel", "ada", "wrong"), ("signal go", "bob", "")]


def test_lines_are_what_tasks_printed_and_what_happened() -> None:
    teller = Teller({})
    lines = [line for seq, record in enumerate(played().log, 1) for line in teller.lines(seq, record)]
    printed = [(line.step, line.task, line.attempt, line.text) for line in lines if line.stream]
    assert printed == [("start", "fetch", 2, "got it"), ("start", "fetch", 2, "all")]
    happened = [f"{line.step}[{line.iteration}] {line.text}" for line in lines if not line.stream]
    assert "start[-1] http: busy; tries again" in happened
    assert "each[1] failed: python: no twos" in happened
    assert happened[-1] == "[-1] execution completed"


def test_what_a_program_printed_is_asked_for_where_it_lies() -> None:
    ref = Ref("nats", "x1/abc", "abc", 10)
    lease = played().log[1].lease
    done = ev.TaskDone("t", 1, Outcome("ok", ref=ref), "continue")
    record = Record("x1", "worker", 1, stamp(NOW), (done,), lease=lease)
    with pytest.raises(Missing):
        Teller({}).lines(1, record)
    program = {"exit_code": 0, "stdout": "out\n", "stderr": "err"}
    assert [(line.stream, line.text) for line in Teller({"abc": program}).lines(1, record)] == [
        ("stdout", "out"), ("stderr", "err")]
    assert Teller({"abc": {"stdout": "a value"}}).lines(1, record) == []


def test_the_result_of_the_execution_and_of_each_step() -> None:
    log = played().log
    assert values.result_of(log, "", "x1").value == "text"
    assert values.result_of(log, "start", "x1").value == {"rows": [{"name": "ada"}]}
    assert values.result_of(log, "each", "x1").shape == "loop"
    with pytest.raises(CliError) as none:
        values.result_of(log, "nosuch", "x1")
    assert none.value.code == exits.NOT_FOUND
    with pytest.raises(CliError, match="no result"):
        values.result_of(log[:2], "", "x1")


def test_ctx_is_as_it_was_at_a_point_of_the_log() -> None:
    entries = list(enumerate(played().log, 1))
    changed = next(seq for seq, record in entries if any(isinstance(e, ev.CtxPatched) for e in record.events))
    assert [values.ctx_at(entries, seq) for seq in (changed - 1, changed, None)] == [{}, {"n": 1}, {"n": 1}]


@pytest.mark.parametrize(
    ("path", "found"),
    [("", {"a": [{"b.c": 1}, 2]}), ("a[0]", {"b.c": 1}), ("a[-1]", 2), ('a[0]["b.c"]', 1), ("a", [{"b.c": 1}, 2])],
)
def test_a_path_goes_into_a_value(path: str, found: object) -> None:
    assert values.at({"a": [{"b.c": 1}, 2]}, path) == found


@pytest.mark.parametrize(
    ("path", "code"),
    [("b", exits.NOT_FOUND), ("a[7]", exits.NOT_FOUND), ("a.b", exits.NOT_FOUND), ("a[", exits.USAGE),
     ("a[0]b", exits.USAGE)],
)
def test_a_path_to_nothing_says_where_it_ends(path: str, code: int) -> None:
    with pytest.raises(CliError) as wrong:
        values.at({"a": [1]}, path)
    assert wrong.value.code == code


def test_what_waits_for_a_place_says_so_until_it_has_one() -> None:
    started = ev.PlaybookStarted(priority=7, limit=ev.Limited("etl", 1))
    scheduled = ev.StepScheduled("start:1", "start", limited=True)
    first = Record("x1", "router", 1, stamp(NOW), (ev.ExecutionRequested("a/b"), started, scheduled))
    granted = [
        Record("x1", "control", 1, stamp(NOW), (ev.LimitGranted("etl", run_id),), source=f"g{run_id}")
        for run_id in ("", "start:1")
    ]
    before, after = portrait(first), portrait(first, *granted)
    assert (before["priority"], before["waits"], before["runs"][0]["waits"]) == (
        7, "for a place of etl", "waits for a place")
    assert (after["waits"], after["runs"][0]["waits"]) == ("", "")
