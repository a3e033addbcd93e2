"""The reasons of `why` on folded histories: tokens, control, decisions that are late, and many reasons at once."""

from typing import Any

import pytest
from msgspec.structs import replace

from shared.answers.rerun import rerun
from shared.answers.why import explain as why
from shared.answers.why.facts import Queued, Worker, World
from shared.answers.why.remedies import Remedy, remedy, start
from shared.answers.why.view import BrokenHistory, viewed
from shared.engine.routing import decide as routing
from shared.events import model as ev
from shared.events.outcome import Outcome, failed, ok
from shared.events.record import Record
from shared.events.request import Request
from shared.events.stamp import seconds, stamp
from tests.unit.answers.why.stalls import LATER, LOOP, PLAIN, Stall, causes, worker, world_of
from tests.unit.engine.support import NOW, plan_of

# -- tokens ----------------------------------------------------------------------------------

ADMIT = """
- step: start
  tool: {kind: noop}
  next: {arcs: [{step: load, args: {size: 3}}]}
- step: load
  spec: {policy: {admit: {rules: RULES}}}
  tool: {kind: noop}
"""


def test_a_rule_that_says_no_is_told_with_what_it_read() -> None:
    rules = "[{when: '{{ args.size < workload.least }}', then: {allow: false}}, {else: {then: {allow: true}}}]"
    stall = Stall(ADMIT.replace("RULES", rules), payload={"least": 10})
    stall.run()
    reason = stall.reason("admission.denied")
    assert (reason.kind, reason.step, reason.values["rule"]) == ("denied", "load", 0)
    assert reason.values["rules"] == [{
        "rule": 0, "line": reason.values["rules"][0]["line"], "when": "{{ args.size < workload.least }}", "holds": True,
        "allow": False, "values": {"args": {"size": 3}, "workload.least": 10},
    }]
    assert "args = {'size': 3}, workload.least = 10" in reason.text


def test_no_rule_that_holds_is_told_with_every_rule() -> None:
    rules = "[{when: '{{ ctx.go }}', then: {allow: true}}, {when: '{{ missing is defined }}', then: {allow: true}}]"
    sets = "tool: {kind: noop, spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {go: false}}}}]}}}"
    stall = Stall(ADMIT.replace("RULES", rules).replace("tool: {kind: noop}", sets, 1))
    stall.run()
    reason = stall.reason("admission.denied")
    assert reason.values["rule"] == -1
    assert [rule["values"] for rule in reason.values["rules"]] == [{"ctx.go": False}, {"missing": "(undefined)"}]
    assert "none of its 2 admission rules holds" in reason.text


def test_the_values_are_those_of_the_moment_the_rule_was_asked() -> None:
    """ctx changes after the token was refused."""
    text = """
    - step: start
      next: {spec: {mode: inclusive}, arcs: [{step: guarded}, {step: changes}]}
    - step: guarded
      spec: {policy: {admit: {rules: [{when: "{{ ctx.open | default(false) }}", then: {allow: true}}]}}}
      tool: {kind: noop}
    - step: changes
      tool: {kind: noop, spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {open: true}}}}]}}}
    """
    stall = Stall(text)
    stall.run()
    assert stall.state.ctx == {"open": True}
    assert stall.reason("admission.denied").values["rules"][0]["values"] == {"ctx.open": "(undefined)"}


def test_too_few_tokens_for_a_join() -> None:
    text = """
    - step: start
      next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b, when: "{{ false }}"}]}
    - {step: a, tool: {kind: noop}, next: {arcs: [{step: both}]}}
    - {step: b, tool: {kind: noop}, next: {arcs: [{step: both}]}}
    - {step: both, spec: {policy: {admit: {join: 2}}}, tool: {kind: noop}}
    """
    stall = Stall(text)
    stall.run()
    reason = stall.reason("join.too_few")
    assert (reason.kind, reason.step) == ("denied", "both")
    assert "1 of 2 tokens came" in reason.text


def test_a_join_names_what_can_still_reach_it() -> None:
    text = """
    - step: start
      next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
    - {step: a, tool: {kind: noop}, next: {arcs: [{step: both}]}}
    - {step: b, tool: {kind: noop}, next: {arcs: [{step: both}]}}
    - {step: both, tool: {kind: noop}}
    """
    stall = Stall(text)
    command = stall.queue.pop(0)
    stall.report(command, stall.perform(command))
    stall.control()
    reason = stall.reason("join.waits", workers=(worker(),))
    assert (reason.step, reason.values["tokens"], reason.values["runs"]) == ("both", ["t4"], ["b:1"])
    assert reason.since


# -- control ---------------------------------------------------------------------------------


def test_what_is_over_says_how_and_where() -> None:
    def work(_step: str, _task: str, _names: dict[str, Any]) -> Any:
        return failed("http", "503")

    stall = Stall(PLAIN)
    stall.work = work
    stall.run()
    answer = stall.why(World(LATER))
    assert (answer.status, causes(answer)) == ("failed", ["over"])
    assert answer.reasons[0].text == "it is over, failed: http: 503, in step start (line 6), task start_task"


UNDONE = """
- step: start
  spec: {policy: {compensate: {step: undo}}}
  tool: {kind: noop}
  next: {arcs: [{step: fails}]}
- {step: fails, tool: {kind: noop}}
- {step: undo, tool: {kind: noop}}
"""


AGAIN = remedy("rerun_failed", execution_id="x1")
MEND = remedy("mend", remedy("rerun_mended", execution_id="x1"), place="step start (line 6) of the playbook")


@pytest.mark.parametrize(("workflow", "helps"), [
    (PLAIN, AGAIN),
    (UNDONE, remedy("execute", path="tests/test")),
])
def test_what_is_suggested_after_the_end_is_not_refused(workflow: str, helps: Remedy) -> None:
    stall = Stall(workflow)
    stall.work = lambda step, _task, _names: ok(None) if "compensate" in workflow and step != "fails" \
        else failed("http", "503", retryable=True)
    stall.run()
    refused = rerun.what_failed("x1", list(enumerate(stall.log, 1)))
    assert (stall.why(World(LATER)).reasons[0].remedy, isinstance(refused, str)) == (helps, helps.code == "execute")


@pytest.mark.parametrize(("outcome", "helps"), [
    (failed("template", "'nn' is undefined"), MEND), (failed("config", "no such key"), MEND),
    (failed("python", "KeyError: 'cost'"), remedy("unless_source", AGAIN, execution_id="x1")),
    (failed("http", "404"), remedy("unless_source", AGAIN, execution_id="x1")),
    (failed("connect", "refused", retryable=True), AGAIN), (failed("timeout", "no result within 1 s"), AGAIN),
])
def test_a_failure_of_the_source_is_not_run_again_with_the_same_source(outcome: Outcome, helps: Remedy) -> None:
    stall = Stall(PLAIN)
    stall.work = lambda *_: outcome
    stall.run()
    assert stall.why(World(LATER)).reasons[0].remedy == helps


def test_a_refused_request_is_over() -> None:
    events = routing.start("x1", Request("no/such"), "", "no playbook 'no/such' is registered", NOW)
    view = viewed("x1", [(1, Record("x1", "router", 1, stamp(NOW), tuple(events)))], lambda _: plan_of(PLAIN))
    answer = why.explain(view, World(LATER), lambda _: plan_of(PLAIN))
    assert (answer.status, causes(answer), answer.path) == ("failed", ["request.refused"], "no/such")


@pytest.mark.parametrize("kind", ["pool", "auth", "playbook"])
def test_what_was_refused_because_something_is_not_there_is_asked_for_again_when_it_is(kind: str) -> None:
    events = routing.start("x1", Request("a/b"), "", plan_of(PLAIN), NOW, unready=(kind, "there is no pool gpu"))
    view = viewed("x1", [(1, Record("x1", "router", 1, stamp(NOW), tuple(events)))], lambda _: plan_of(PLAIN))
    (reason,) = why.explain(view, World(LATER), lambda _: plan_of(PLAIN)).reasons
    assert (reason.cause, reason.remedy) == ("request.refused", remedy("execute_mended", path="a/b"))


def test_a_credential_that_is_not_taken_is_given_anew_before_it_is_tried_again() -> None:
    stall = Stall(PLAIN)
    stall.work = lambda *_: failed("connect", "db:1: password authentication failed", details={"credential": "crm"})
    stall.run()
    assert stall.why(World(LATER)).reasons[0].remedy == remedy("renew_credential", AGAIN, credential="crm")


def test_workers_that_were_lost_say_in_which_task() -> None:
    stall = Stall(PLAIN)
    stall.says(ev.StepStarted(), ev.TaskStarted("start_task", 1))
    stall.says(ev.StepFailed({"kind": "worker_lost", "message": "3 leases were lost"}))
    stall.run()
    text = stall.why(World(LATER)).reasons[0].text
    assert "it was in task start_task (noop, step at line " in text


def test_an_end_shows_what_is_known_of_the_call() -> None:
    stall = Stall(PLAIN)
    outcome = failed("python", "KeyError: 1", meta={"stdout": "row 1\n"})
    stall.work = lambda *_: outcome
    stall.run()
    failure = stall.why(World(LATER)).reasons[0].values["failure"]
    assert (failure["step"], failure["task"], failure["stdout"]) == ("start", "start_task", "row 1")


def test_an_undecided_record_tells_who_is_late() -> None:
    stall = Stall(PLAIN)
    stall.says(ev.StepStarted(), ev.StepDone())
    at, seq = seconds(stall.log[-1].ts), len(stall.log)
    assert stall.reason("router.deciding", now=at + 1).kind == "running"
    assert stall.doubts(world_of(at + 1)) == frozenset()
    assert stall.doubts(world_of(at + 9)) == {"router"}
    gone = stall.reason("router.gone", now=at + 9, members={"router": ()})
    assert gone.remedy == start("router")
    behind = stall.reason("router.behind", now=at + 9, members={"router": ("r",)}, cursors={"router": seq - 2})
    assert "at most 2 records" in behind.text
    stuck = stall.reason("router.silent", now=at + 9, members={"router": ("r",)}, cursors={"router": seq})
    assert "has said nothing for 9 s" in stuck.text  # what is not known is not claimed
    assert stuck.values["events"] == ["next.selected", "playbook.processed", "workflow.finished"]


def test_machines_whose_clock_is_wrong_are_named() -> None:
    stall = Stall(PLAIN)
    far = Worker("w2", "default", 2, frozenset(), 4, LATER - 1, skew=-3600.0)
    other = Worker("w3", "gpu", 2, frozenset(), 4, LATER - 1, skew=3600.0)
    answer = stall.why(world_of(workers=(worker(), far, other), skews={"router r": 7.0, "scheduler s": 0.3}))
    told = [(r.values["process"], r.values["ahead_s"]) for r in answer.reasons if r.cause == "clock.skewed"]
    assert told == [("router r", 7.0), ("worker w2", -3600.0)]


def test_a_wait_whose_time_is_over_is_the_schedulers_to_end() -> None:
    stall = Stall(PLAIN)
    waits = ev.TaskWaiting("start_task", 1, "start_task/1", until=stamp(LATER - 1))
    stall.says(ev.StepStarted(), waits, writer="waiting")
    assert stall.reason("scheduler.deciding", now=LATER).kind == "running"
    assert stall.reason("scheduler.gone", now=LATER + 5, members={"scheduler": ()}).since == stamp(LATER - 1)


def test_cancelling_names_what_still_runs() -> None:
    stall = Stall(PLAIN)
    stall.says(ev.StepStarted())
    stall.control_says(ev.CancelRequested("enough", "ada", 30.0))
    stall.control()
    reason = stall.reason("cancelling")
    assert [(each["run_id"], each["workers"]) for each in reason.values["at_work"]] == [("start:1", ["w1"])]
    assert (reason.values["by"], reason.until) == ("ada", stall.state.until)


def _paused(workflow: str) -> Stall:
    stall = Stall(workflow)
    stall.says(ev.StepStarted(), writer="iteration" if "loop" in workflow else "worker")
    if "loop" in workflow:
        stall.says(ev.StepStarted(), ev.TaskStarted("start_task", 1), index=0, writer="iteration")
    stall.control_says(ev.PauseRequested("lunch", "ada", 1))
    stall.control()
    return stall


LOCAL = LOOP.replace("max_in_flight: 2", "max_in_flight: 2, policy: {exec: local}")


@pytest.mark.parametrize("workflow", [PLAIN, LOCAL])
def test_a_pause_says_who_goes_on_with_what(workflow: str) -> None:
    reason = _paused(workflow).reason("paused", workers=(worker("w1", ("x1", "start:1", -1)),))
    assert reason.text.startswith("it was paused by ada: lunch; start:1 goes on to its end on w1")
    assert reason.text.endswith("and nothing follows")
    assert reason.values["at_work"][0]["workers"] == ["w1"]


@pytest.mark.parametrize(("workers", "left"), [
    ((), "w1 had it and is gone"),
    ((worker("w2"),), "w1 had it and is gone"),
    ((worker("w1"),), "w1 had it and has let go of it"),
])
def test_a_local_loop_whose_worker_is_lost_in_a_pause_continues_at_the_resume(
    workers: tuple[Worker, ...], left: str
) -> None:
    stall = _paused(LOCAL)
    reason = stall.reason("paused", workers=workers)
    assert f"nobody has start:1 ({left}): its iterations in flight (1) continue after the resume" in reason.text
    assert "on w1" not in reason.text
    assert reason.values["at_work"] == [{"run_id": "start:1", "workers": [], "since": "", "had": ["w1"]}]
    assert why.pools(stall.view(), lambda _: stall.plan, {}) == ["default"]


def test_a_run_whose_worker_is_lost_in_a_pause_is_taken_by_another() -> None:
    reason = _paused(PLAIN).reason("paused")
    assert "nobody has start:1 (w1 had it and is gone): the next worker that takes it goes on to its end" in reason.text


def test_a_pause_in_which_nothing_runs_says_so() -> None:
    stall = Stall(PLAIN)
    stall.says(ev.StepStarted(), ev.TaskWaiting("start_task", 1, "start_task/1", signal="go"), writer="waiting")
    stall.control_says(ev.PauseRequested("", "ada", 1))
    stall.control()
    assert stall.reason("paused").text == "it was paused by ada; nothing runs, and nothing follows"


def test_compensating_names_the_run_that_is_undone() -> None:
    stall = Stall("""
    - step: start
      spec: {policy: {compensate: {step: undo}}}
      tool: {kind: noop}
      next: {arcs: [{step: fails}]}
    - {step: fails, tool: {kind: noop}}
    - {step: undo, tool: {kind: noop}}
    """)
    stall.work = lambda step, _task, _names: failed("http", "503") if step == "fails" else ok(None)
    for _ in range(2):
        command = stall.queue.pop(0)
        stall.report(command, stall.perform(command))
        stall.control()
    reason = stall.reason("compensating", workers=(worker("w1", ("x1", "undo:1", -1)),))
    assert (reason.run_id, reason.values["status"], reason.values["left"]) == ("undo:1", "failed", [])


def test_times_that_will_end_a_run_are_told() -> None:
    stall = Stall("- {step: start, spec: {policy: {lifecycle: {timeout_s: 30, deadline_s: 90}}}, tool: {kind: noop}}")
    stall.says(ev.StepStarted())
    answer = stall.why(workers=(worker("w1", ("x1", "start:1", -1)),))
    found = [each.until for each in answer.reasons if each.cause == "deadline"]
    assert found == [stamp(NOW + 90), stamp(seconds(stall.log[-1].ts) + 30)]


def test_a_log_with_a_gap_says_from_which_record_on() -> None:
    stall = Stall(PLAIN)
    stall.says(ev.StepStarted(), ev.StepDone())
    stall.control()
    entries = list(enumerate(stall.log, 1))
    entries[-1] = (entries[-1][0], replace(entries[-1][1], n=99))
    with pytest.raises(BrokenHistory) as broken:
        viewed("x1", entries, lambda _: stall.plan)
    assert (broken.value.seq, "the log has a gap" in broken.value.reason) == (len(entries), True)
    stall = Stall(LOOP)
    entries = list(enumerate(stall.log, 1))
    entries[1] = (2, replace(entries[1][1], n=7))
    stall.says(ev.StepStarted(), index=0, writer="iteration")
    with pytest.raises(BrokenHistory, match="scheduler event 7 follows 0") as broken:
        viewed("x1", [*entries, (3, stall.log[-1])], lambda _: stall.plan)
    assert broken.value.seq == 2


# -- many --------------------------------------------------------------------------------------


def test_blocking_reasons_come_first_and_iterations_of_one_cause_are_one() -> None:
    stall = Stall(LOOP.replace("max_in_flight: 2", "max_in_flight: 5"))
    held = worker("w1", ("x1", "start:1", 0))
    queued = {("start:1", index): Queued(index + 1, NOW, index) for index in range(5)}
    answer = stall.why(workers=(replace(held, slots=1),), queued=queued)
    assert causes(answer) == ["pool.full", "running"]
    assert answer.reasons[0].indexes == (1, 2, 3, 4)
    assert "the same of 4 iterations" in answer.reasons[0].text


def test_no_more_reasons_are_listed_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(why, "MAX_REASONS", 2)
    text = """
    - step: start
      next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: c}]}
    - {step: a, tool: {kind: noop}}
    - {step: b, tool: {kind: noop}}
    - {step: c, tool: {kind: noop}}
    """
    answer = Stall(text).why()
    assert causes(answer) == ["pool.no_workers", "pool.no_workers", "more"]
    assert answer.reasons[-1].text == "1 more reasons are not listed"
