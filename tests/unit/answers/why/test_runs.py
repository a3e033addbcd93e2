"""The reasons of `why` on folded histories: workers, pools, loops, waits and places."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from services.cli.why.text import lines
from shared.answers.why import explain as why
from shared.answers.why import waits as why_waits
from shared.answers.why.facts import Answer, Pool, Queued, Reason, Worker
from shared.answers.why.remedies import GOES_ON, Remedy, remedy
from shared.answers.why.view import viewed
from shared.engine.leases.lease_fit import child_of
from shared.events import model as ev
from shared.events.beat import Saying
from shared.events.outcome import failed
from shared.events.record import Lease
from shared.events.stamp import seconds, stamp
from tests.unit.answers.why.stalls import LATER, LOOP, PLAIN, Stall, causes, worker, world_of
from tests.unit.engine.support import NOW, plan_of

# -- workers and pools -----------------------------------------------------------------------


def delivered(floor: int = 0, held: int = 1) -> dict[str, Any]:
    """Its command is the first in the queue, and was delivered."""
    return {"queued": {("start:1", -1): Queued(1, NOW)},
            "pools": {"default": Pool("default", held=held, delivered=1, floor=floor)}}


def test_what_runs_tells_who_holds_it_and_until_when() -> None:
    stall = Stall(PLAIN)
    stall.says(ev.StepStarted(), ev.TaskStarted("start_task", 1))
    reason = stall.reason("running", workers=(worker("w1", ("x1", "start:1", -1)),))
    assert (reason.kind, reason.task, reason.attempt) == ("running", "start_task", 1)
    assert reason.values["lease_expires"] == stamp(LATER - 1 + 15)
    assert reason.values["leases"] == 1


def test_what_its_call_printed_last_is_told() -> None:
    stall, key = Stall(PLAIN), ("x1", "start:1", -1)
    stall.says(ev.StepStarted(), ev.TaskStarted("start_task", 1))
    says = (Saying("x2", "start:1", -1, "start_task", 1, {"stdout": ("another's",)}),
            Saying(*key, "start_task", 1, {"stdout": ("reading", "page 7"), "stderr": ("slow",)}))
    reason = stall.reason("running", workers=(replace(worker("w1", key), says=says),))
    assert reason.values["printed"] == {"stdout": "reading\npage 7", "stderr": "slow"}
    assert list(lines(Answer("x1", "running", (reason,)), datetime.now(UTC)))[3:6] == [
        "      printed:", "        reading", "        page 7"]
    earlier = (Saying(*key, "start_task", 2, {"stdout": ("of another attempt",)}),)
    assert "printed" not in stall.reason("running", workers=(replace(worker("w1", key), says=earlier),)).values


@pytest.mark.parametrize(("spec", "step", "limit"), [
    ("{}", "{}", 3600.0), ("{timeout: 30}", "{}", 30), ("{timeout: {connect: 1, total: 90}}", "{}", 90),
    ('{timeout: "{{ 5 }}"}', "{}", None), ("{}", "{policy: {lifecycle: {timeout_s: 60}}}", None),
])
def test_a_call_under_way_says_when_it_is_given_up(spec: str, step: str, limit: float | None) -> None:
    """Unless only its worker knows, or the time of the whole run bounds it, which is a reason of its own."""
    stall = Stall("", plan=plan_of(f"""
    - step: start
      spec: {step}
      tool: {{kind: noop, spec: {spec}}}
    """))
    stall.says(ev.StepStarted(), ev.TaskStarted("start_task", 1))
    reason = stall.reason("running", workers=(worker("w1", ("x1", "start:1", -1)),))
    began = seconds(stall.log[-1].ts)
    assert reason.values.get("call_s") == limit
    assert reason.values.get("call_until") == (None if limit is None else stamp(began + limit))
    assert ("given up at" in reason.text) is (limit is not None)


def test_a_run_that_was_taken_and_not_written_about_yet() -> None:
    reason = Stall(PLAIN).reason("running", workers=(worker("w1", ("x1", "start:1", -1)),))
    assert "has not written anything" in reason.text


def test_a_run_that_came_back_says_how_often() -> None:
    stall = Stall(PLAIN)
    stall.says(ev.StepStarted(), ev.TaskStarted("start_task", 1), worker="w0")
    stall.says(ev.StepStarted(), ev.TaskStarted("start_task", 1), epoch=(1, 2))
    stall.says(ev.TaskStarted("late", 9), worker="w0")  # of the lower epoch: it does not count
    reason = stall.reason("running", workers=(worker("w1", ("x1", "start:1", -1)),))
    assert (reason.values["worker"], reason.values["leases"], reason.values["deliveries"]) == ("w1", 2, 2)
    assert reason.task == "start_task"
    assert "its second lease" in reason.text


@pytest.mark.parametrize(("task", "said", "known"), [
    ("{kind: python, code: 'while True: pass'}", "(python, step at line ", {"kind": "python"}),
    ("{kind: http, url: 'http://u:pw@slow.example/v1?token=abc'}", "(http, slow.example/v1, step at line ",
     {"kind": "http", "url": "slow.example/v1"}),
    ("{kind: postgres, auth: warehouse, command: SELECT 1}", "(postgres, credential warehouse, step at line ",
     {"kind": "postgres", "credential": "warehouse"}),
])
def test_a_call_under_way_says_what_it_calls_and_how_it_is_ended(task: str, said: str, known: dict[str, str]) -> None:
    stall = Stall(f"  - step: start\n    tool: {task}\n")
    stall.says(ev.StepStarted(), ev.TaskStarted("start_task", 1))
    reason = stall.reason("running", workers=(worker("w1", ("x1", "start:1", -1)),))
    assert f"task start_task {said}{reason.values['line']})" in reason.text
    assert known.items() <= reason.values.items()
    assert "abc" not in reason.text
    assert reason.remedy == remedy("call_ends", execution_id="x1")


def test_lost_leases_are_named_beside_how_many_there_may_be() -> None:
    stall = Stall(PLAIN)
    stall.says(ev.StepStarted(), worker="w0")
    stall.says(ev.StepStarted(), epoch=(1, 2))
    reason = stall.reason("running", workers=(worker("w1", ("x1", "start:1", -1)),))
    assert "1 of at most 3 leases in a row were lost, with no task finished: w0 from " in reason.text
    assert [lease["worker"] for lease in reason.values["lost_leases"]] == ["w0"]


def test_a_run_that_was_handed_back_waits_for_a_worker() -> None:
    stall = Stall(PLAIN)
    stall.says(ev.StepStarted(), ev.LeaseReleased("the worker stops"))
    reason = stall.reason("pool.queued", workers=(worker("w2"),), queued={("start:1", -1): Queued(7)})
    assert "lost" not in reason.text


@pytest.mark.parametrize(("workers", "others"), [
    ((worker("w1", ("x1", "start:1", -1), heard=LATER - 8),), []),
    ((worker("w2"), worker("w1", ("x1", "start:1", -1), heard=LATER - 8)), ["w2"]),
])
def test_a_silent_worker_keeps_its_lease_until_it_expires(workers: tuple[Worker, ...], others: list[str]) -> None:
    stall = Stall(PLAIN)
    stall.says(ev.StepStarted())
    reason = stall.reason("lease.silent", workers=workers, **delivered())
    assert (reason.kind, reason.values["other_workers"]) == ("blocked", others)
    assert (reason.values["heard"], seconds(reason.until)) == (stamp(LATER - 8), pytest.approx(LATER - 8 + 1.5 + 15))
    assert reason.remedy == (GOES_ON if others else remedy("start_worker", pool="default"))


@pytest.mark.parametrize("now", [LATER, LATER + 7.0])
def test_of_a_worker_whose_beats_are_gone_no_time_is_made_up(now: float) -> None:
    stall = Stall(PLAIN)
    stall.says(ev.StepStarted())
    last = stall.log[-1].ts
    reason = stall.reason("lease.silent", now=now, **delivered())
    assert (reason.since, reason.until, "heard" in reason.values) == (last, "", False)
    assert f"w1 holds it and has not been heard of for over 10 s; its last word about it was at {last[:19]}Z" \
        in reason.text


def test_when_the_pools_service_knows_since_when_a_worker_is_silent_that_is_told() -> None:
    stall = Stall(PLAIN)
    stall.says(ev.StepStarted())
    facts = delivered()
    facts["pools"] = {"default": replace(facts["pools"]["default"], silent={"w1": LATER - 12})}
    reason = stall.reason("lease.silent", **facts)
    assert (reason.values["heard"], reason.until) == (stamp(LATER - 12), stamp(LATER - 12 + 1.5 + 15))


@pytest.mark.parametrize("workers", [(), (worker("w1", ("x1", "start:1", -1), heard=LATER - 8),)])
def test_what_a_silent_worker_held_and_is_in_the_queue_again_is_nobodys(workers: tuple[Worker, ...]) -> None:
    stall = Stall(PLAIN)
    stall.says(ev.StepStarted())
    frozen = Pool("default", pending=1, delivered=1, managed=True, wanted=1, state="silent", message="w1 said nothing")
    facts: dict[str, Any] = {"queued": {("start:1", -1): Queued(2, NOW)}, "pools": {"default": frozen}}
    reason = stall.reason("pool.no_workers", workers=workers, **facts)
    assert "1 are wanted, and it is silent (w1 said nothing)" in reason.text
    assert (reason.values["came_back_from"], reason.mover) == ("w1", "itself")
    assert "w1 had it before and is " in reason.text
    other = stall.reason("pool.queued", workers=(*workers, worker("w2")), **facts)
    assert other.values["came_back_from"] == "w1"


def test_a_lease_that_is_over_holds_nothing() -> None:
    stall = Stall(PLAIN)
    stall.says(ev.StepStarted())
    facts = delivered()
    facts["pools"] = {"default": replace(facts["pools"]["default"], silent={"w1": LATER - 30})}
    assert stall.reason("pool.no_workers", **facts).values["came_back_from"] == "w1"


def test_a_worker_that_was_started_anew_does_not_hold_what_it_held() -> None:
    stall = Stall(PLAIN)
    stall.says(ev.StepStarted())
    anew = replace(worker(), started=LATER - 3)
    reason = stall.reason("lease.silent", workers=(anew,), queued={("start:1", -1): Queued(1, NOW)})
    assert reason.until == stamp(LATER - 3 + 15)
    assert "started anew" in reason.text
    again = replace(anew, held=frozenset({("x1", "start:1", -1)}))
    assert "has not written anything" in stall.reason("running", workers=(again,)).text


def test_who_has_it_by_the_log_goes_before_a_worker_that_does_not_know_better() -> None:
    stall = Stall(PLAIN)
    stall.says(ev.StepStarted())
    key = ("x1", "start:1", -1)
    late, own, silent = worker("w0", key), worker("w1", key), worker("w1", heard=LATER - 50)
    assert stall.reason("running", workers=(late, own)).values["worker"] == "w1"
    assert stall.reason("running", workers=(late, silent)).values["worker"] == "w0"


def test_a_worker_that_let_go_of_a_run_does_not_hold_it() -> None:
    stall = Stall(PLAIN)
    stall.says(ev.StepStarted())
    reason = stall.reason("pool.queued", workers=(worker(),), queued={("start:1", -1): Queued(1, NOW, 0)})
    assert reason.values["came_back_from"] == "w1"
    assert "w1 had it before" in reason.text


def test_a_short_pause_between_attempts_is_spent_with_the_worker() -> None:
    plan = plan_of("""
    - step: start
      tool:
        kind: noop
        spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 3, delay: 4}},
                                {else: {then: {do: fail}}}]}}
    """)
    stall = Stall("", plan=plan)
    retried = ev.TaskRetried("start_task", 1, failed("http", "503"), 4.0)
    stall.says(ev.StepStarted(), ev.TaskStarted("start_task", 1), retried)
    at = seconds(stall.log[-1].ts)
    reason = stall.reason("backoff", now=at + 1, workers=(worker(heard=at),))
    assert (reason.attempt, reason.values["attempts"], reason.values["worker"]) == (2, 3, "w1")
    assert reason.until == stamp(at + 4)
    assert "http: 503" in reason.text
    assert stall.reason("running", workers=(worker("w1", ("x1", "start:1", -1)),)).attempt == 1


def test_a_pool_that_is_not_there_paused_or_without_workers() -> None:
    stall = Stall(PLAIN)
    assert stall.reason("pool.unknown", pools={"default": Pool("default", known=False)}).kind == "blocked"
    lost = stall.reason("pool.unknown", pools={"default": Pool("default", known=False)}, workers=(worker(heard=LATER),))
    assert (lost.values["workers"], lost.remedy) == (["w1"], remedy("pool_made", pool="default"))
    pool = Pool("default", paused=True, paused_until=LATER + 9, paused_by="ada", paused_note="upgrade")
    reason = stall.reason("pool.paused", pools={"default": pool}, workers=(worker(),))
    assert (reason.until, reason.values["by"], reason.values["note"]) == (stamp(LATER + 9), "ada", "upgrade")
    assert reason.remedy == remedy("resume_consumer", pool="default")
    managed = replace(pool, managed=True, state="paused")
    resumed = remedy("resume_pool", pool="default")
    assert stall.reason("pool.paused", pools={"default": managed}).remedy == resumed
    assert stall.reason("pool.no_workers", workers=(worker(heard=LATER - 9),)).values["workers"] == []


@pytest.mark.parametrize(("wanted", "state", "helps"), [
    (0, "empty", remedy("scale_pool", pool="default", workers=1)),
    (2, "failing", remedy("look_at_pool", pool="default")),
    (2, "unattended", remedy("start_pools")),
])
def test_a_pool_with_a_document_says_why_its_workers_are_not_there(wanted: int, state: str, helps: Remedy) -> None:
    pool = Pool("default", managed=True, wanted=wanted, state=state, message="the reason")
    going = Worker("w1", "default", 2, frozenset(), 4, LATER - 1, draining=True)
    reason = Stall(PLAIN).reason("pool.no_workers", pools={"default": pool}, workers=(going,))
    assert reason.remedy == helps
    assert f"{wanted} are wanted, and it is {state} (the reason)" in reason.text


def test_a_pool_that_keda_scales_is_not_filled_by_hand() -> None:
    reason = Stall(PLAIN).reason("pool.no_workers", pools={"default": Pool("default", scaled=True)})
    assert reason.remedy == remedy("look_at_scaler", pool="default")
    assert "KEDA" in reason.text


def test_a_full_pool_tells_who_fills_it_and_how_many_stand_before() -> None:
    held = (("x2", "a:1", 0), ("x2", "a:1", 1))
    pool = Pool("default", held=5, pending=4, delivered=9)
    queued = {("start:1", -1): Queued(12, NOW, 2)}
    reason = Stall(PLAIN).reason("pool.full", pools={"default": pool}, workers=(worker("w1", *held),), queued=queued)
    assert (reason.values["before"], reason.values["held_by"]) == (5, {"x2": 2})
    assert (reason.values["slots"], reason.values["busy"], reason.since) == (2, 2, stamp(NOW))


def test_what_is_in_the_queue_of_a_pool_with_room_is_about_to_be_taken() -> None:
    queued = {("start:1", -1): Queued(3, NOW, 0)}
    pools = {"default": Pool("default", held=1, delivered=3)}
    reason = Stall(PLAIN).reason("pool.queued", workers=(worker(),), queued=queued, pools=pools)
    assert reason.values["delivered"] is True


def test_what_nobody_has_and_is_not_queued_waits_for_its_turn() -> None:
    stall = Stall(LOOP)
    queued = {("start:1", 0): Queued(3, NOW, 0)}
    held, alive = (worker("w1", ("x1", "start:1", 0)),), {"scheduler": ("s",)}
    reason = stall.reason("turn", workers=held, queued=queued, members=alive)
    assert (reason.index, reason.values["under_way"], reason.values["room"], reason.values["most"]) == (1, 1, 4, 8)
    young = stall.reason("scheduler.deciding", now=NOW + 1, workers=(worker("w1", ("x1", "start:1", 0), heard=NOW),))
    assert (young.kind, young.index) == ("running", 1)
    gone = stall.reason("scheduler.gone", workers=held, members={"scheduler": ()})
    assert (gone.kind, gone.index) == ("blocked", 1)


def test_a_command_that_is_nowhere_is_late_or_lost() -> None:
    stall, alive = Stall(PLAIN), {"scheduler": ("s",)}
    behind = stall.reason("scheduler.behind", workers=(worker(),), members=alive, cursors={"scheduler": 0})
    assert (behind.values["record"], behind.values["cursor"]) == (1, 0)
    lost = stall.reason("command.lost", workers=(worker(),), members=alive, cursors={"scheduler": 1})
    assert (lost.kind, lost.run_id) == ("blocked", "start:1")
    crowded = {"default": Pool("default", pending=6, held=2)}
    turn = stall.reason("turn", workers=(worker(),), members=alive, cursors={"scheduler": 1}, pools=crowded)
    assert (turn.values["under_way"], turn.values["most"]) == (0, 8)


def test_without_its_source_what_the_log_says_is_told() -> None:
    stall = Stall(PLAIN)
    stall.says(ev.StepStarted(), ev.TaskWaiting("start_task", 1, "start_task/1", signal="go"), writer="waiting")
    view = viewed("x1", list(enumerate(stall.log, 1)), None)
    assert causes(why.without_source(view, world_of(), "it is gone")) == ["playbook.gone", "wait.signal"]
    stall.control_says(ev.CancelRequested("enough", "ada"))
    stall.control()
    view = viewed("x1", list(enumerate(stall.log, 1)), None)
    answer = why.without_source(view, world_of(), "it is gone")
    assert (answer.status, causes(answer)) == ("cancelled", ["over"])
    assert "by ada: enough" in answer.reasons[0].text


# -- loops -----------------------------------------------------------------------------------


def test_the_window_of_a_loop_names_the_iterations_that_fill_it() -> None:
    stall = Stall(LOOP)
    stall.says(ev.StepStarted(), ev.TaskStarted("start_task", 1), index=1, writer="iteration")
    answer = stall.why(workers=(worker("w1", ("x1", "start:1", 0), ("x1", "start:1", 1)),))
    assert causes(answer) == ["loop.window", "running"]
    window, running = answer.reasons
    assert (window.values["in_flight"], window.values["max_in_flight"], window.values["count"]) == (2, 2, 5)
    assert [(each["index"], each["worker"]) for each in window.values["oldest"]] == [(0, ""), (1, "w1")]
    assert running.indexes == (0, 1)


def test_a_sequential_loop_waits_for_one() -> None:
    stall = Stall(LOOP.replace("spec: {mode: parallel, max_in_flight: 2}", "spec: {mode: sequential}"))
    assert "sequential: 4 iterations wait for iteration 0" in stall.reason("loop.window", workers=(worker(),)).text


def test_a_loop_that_stop_when_has_stopped() -> None:
    stall = Stall(LOOP.replace("max_in_flight: 2", "max_in_flight: 2, stop_when: '{{ true }}'"))
    command = stall.queue.pop(0)
    stall.report(command, stall.perform(command))
    stall.control()
    reason = stall.reason("loop.stopped", workers=(worker(),))
    assert (reason.kind, reason.values["in_flight"]) == ("note", 1)


def test_a_local_loop_is_one_workers_as_a_whole() -> None:
    stall = Stall(LOOP.replace("max_in_flight: 2", "max_in_flight: 2, policy: {exec: local}"))
    assert causes(stall.why()) == ["pool.no_workers"]
    stall.says(ev.StepStarted(), writer="iteration")
    stall.says(ev.StepStarted(), ev.TaskStarted("start_task", 1), index=0, writer="iteration")
    answer = stall.why(workers=(worker("w1", ("x1", "start:1", -1)),))
    assert causes(answer) == ["running"]
    running = answer.reasons[0]
    assert (running.index, running.values["worker"], running.values["in_flight"]) == (-1, "w1", 1)
    assert "0 of 5 iterations are done, 1 in flight, at most 2" in running.text


def test_the_claim_of_rows_is_told_as_such() -> None:
    text = """
    - step: start
      loop:
        cursor: {kind: postgres, auth: db, claim: "SELECT {{ claim.size }}", frame: 3}
        iterator: row
        spec: {mode: parallel, max_in_flight: 2}
      tool: {kind: noop}
    """
    stall = Stall(text)
    reason = stall.reason("pool.queued", workers=(worker(),), queued={("start:1", -2): Queued(1, NOW, 0)})
    assert (reason.index, reason.values["frame"]) == (-2, 0)
    assert reason.text.startswith("the claim of its next rows: it is in the queue")
    stall.says(ev.StepStarted(), ev.FrameClaimed(3, [1, 2, 3]), index=-2, writer="iteration")
    stall.control()
    answer = stall.why(workers=(worker("w1", ("x1", "start:1", 0), ("x1", "start:1", 1)),))
    window = next(each for each in answer.reasons if each.cause == "loop.window")
    assert (window.values["count"], window.values["in_flight"]) == (3, 2)


# -- waits, places ---------------------------------------------------------------------------


def test_waits_say_for_what() -> None:
    stall = Stall(PLAIN)
    waits = ev.TaskWaiting("start_task", 1, "start_task/1", until=stamp(LATER + 5))
    stall.says(ev.StepStarted(), waits, writer="waiting")
    assert stall.reason("wait.time").until == stamp(LATER + 5)
    stall = Stall(PLAIN)
    own = child_of("x1", Lease("start:1", "start", (1, 1), "w1"), "start_task/1")
    child = ev.Child(own, "sub/play")
    stall.says(ev.StepStarted(), ev.TaskWaiting("start_task", 1, "start_task/1", child), writer="waiting")
    below = Answer(own, "running", (Reason("paused", "blocked", "it was paused"),))
    reason = stall.reason("wait.child", others={own: below})
    assert (reason.values["child"], reason.because) == (own, (below,))
    assert why_waits.children(stall.view()) == [own]


def test_a_wait_of_a_paused_execution_says_so() -> None:
    stall = Stall("- {step: start, tool: {kind: signal, signal: go}}")
    stall.says(ev.StepStarted(), ev.TaskWaiting("start_task", 1, "start_task/1", signal="go"), writer="waiting")
    stall.control_says(ev.PauseRequested("lunch", "ada", 1))
    stall.control()
    answer = stall.why()
    assert (answer.status, causes(answer)) == ("paused", ["paused", "wait.signal"])
    assert "before someone resumes it" in answer.reasons[1].text
