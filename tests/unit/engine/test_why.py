"""The reasons of `why`, on folded histories: what the log says, and what the world around it does."""

from typing import Any

import pytest
from msgspec.structs import replace

from shared.dsl.plan import Plan
from shared.engine import why, why_limits, why_waits
from shared.engine.ledger import Ledger
from shared.engine.why_facts import Answer, Pool, Queued, Reason, Worker, World
from shared.engine.why_view import Broken, View, viewed
from shared.events import model as ev
from shared.events.outcome import failed, ok
from shared.events.record import Epoch, Lease, Record, Writer
from shared.events.stamp import seconds, stamp
from tests.unit.engine.support import NOW, Driver, plan_of

PLAIN = "- {step: start, tool: {kind: noop}}"
LOOP = """
- step: start
  loop: {in: "{{ range(5) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: noop}
"""
LATER = NOW + 60


class Stall(Driver):
    """An execution that goes as far as a test lets it."""

    def __init__(self, workflow: str, payload: dict[str, Any] | None = None, plan: Plan | None = None) -> None:
        super().__init__(plan or plan_of(workflow), payload=payload)
        self.control()

    def says(
        self, *events: ev.Event, index: int = -1, worker: str = "w1", epoch: Epoch = (1, 1), writer: Writer = "worker"
    ) -> None:
        """A worker's record about its lease of the first run."""
        self._append(writer, list(events), Lease("start:1", "start", epoch, worker, index))

    def control_says(self, *events: ev.Event, writer: Writer = "control") -> None:
        for event in events:
            self._append(writer, [event])

    def view(self) -> View:
        return viewed("x1", list(enumerate(self.log, 1)), lambda _: self.plan)

    def why(self, world: World | None = None, **facts: Any) -> Answer:
        return why.explain(self.view(), world or world_of(**facts), lambda _: self.plan)

    def doubts(self, world: World) -> frozenset[str]:
        return why.in_doubt(self.view(), world, lambda _: self.plan, {})

    def reason(self, cause: str, **facts: Any) -> Reason:
        answer = self.why(**facts)
        found = [reason for reason in answer.reasons if reason.cause == cause]
        assert len(found) == 1, [(reason.cause, reason.text) for reason in answer.reasons]
        return found[0]


def worker(name: str = "w1", *held: tuple[str, str, int], heard: float = LATER - 1) -> Worker:
    return Worker(name, "default", 2, frozenset(held), 4, heard)


def world_of(now: float = LATER, **facts: Any) -> World:
    facts.setdefault("pools", {"default": Pool("default")})
    return World(now, **facts)


def causes(answer: Answer) -> list[str]:
    return [reason.cause for reason in answer.reasons]


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


# -- workers and pools -----------------------------------------------------------------------


def test_what_runs_tells_who_holds_it_and_until_when() -> None:
    stall = Stall(PLAIN)
    stall.says(ev.StepStarted(), ev.TaskStarted("start_task", 1))
    reason = stall.reason("running", workers=(worker("w1", ("x1", "start:1", -1)),))
    assert (reason.kind, reason.task, reason.attempt) == ("running", "start_task", 1)
    assert reason.values["lease_expires"] == stamp(LATER - 1 + 15)
    assert reason.values["leases"] == 1


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


@pytest.mark.parametrize(("workers", "others"), [
    ((), []),
    ((worker("w1", ("x1", "start:1", -1), heard=LATER - 8),), []),
    ((worker("w2"), worker("w1", ("x1", "start:1", -1), heard=LATER - 8)), ["w2"]),
])
def test_a_silent_worker_keeps_its_lease_until_it_expires(workers: tuple[Worker, ...], others: list[str]) -> None:
    stall = Stall(PLAIN)
    stall.says(ev.StepStarted())
    reason = stall.reason("lease.silent", workers=workers)
    heard = LATER - 8 if workers else LATER - 10
    assert (reason.kind, reason.values["other_workers"]) == ("blocked", others)
    assert seconds(reason.until) == pytest.approx(heard + 1.5 + 15)
    assert ("start a worker" in reason.remedy) is not bool(others)


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
    pool = Pool("default", paused=True, paused_until=LATER + 9, paused_by="ada", paused_note="upgrade")
    reason = stall.reason("pool.paused", pools={"default": pool}, workers=(worker(),))
    assert (reason.until, reason.values["by"], reason.values["note"]) == (stamp(LATER + 9), "ada", "upgrade")
    assert reason.remedy == "nats consumer resume NOETL_COMMANDS default"
    managed = replace(pool, managed=True, wanted=3)
    assert stall.reason("pool.paused", pools={"default": managed}).remedy == "noetlctl pool resume default"
    managed = replace(managed, paused=False)
    assert stall.reason("pool.no_workers", pools={"default": managed}).remedy == "noetlctl pool scale default 4"
    assert stall.reason("pool.no_workers", workers=(worker(heard=LATER - 9),)).values["workers"] == []


def test_a_full_pool_tells_who_fills_it_and_how_many_stand_before() -> None:
    held = (("x2", "a:1", 0), ("x2", "a:1", 1))
    pool = Pool("default", held=5, pending=4, delivered=9)
    queued = {("start:1", -1): Queued(12, NOW, 2)}
    reason = Stall(PLAIN).reason("pool.full", pools={"default": pool}, workers=(worker("w1", *held),), queued=queued)
    assert (reason.values["before"], reason.values["held_by"]) == (5, {"x2": 2})
    assert (reason.values["slots"], reason.values["busy"], reason.since) == (2, 2, stamp(NOW))


def test_what_is_in_the_queue_of_a_pool_with_room_is_about_to_be_taken() -> None:
    queued = {("start:1", -1): Queued(3, NOW, 0)}
    pools = {"default": Pool("default", delivered=3)}
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


# -- waits, places ---------------------------------------------------------------------------


def test_waits_say_for_what() -> None:
    stall = Stall(PLAIN)
    waits = ev.TaskWaiting("start_task", 1, "start_task/1", until=stamp(LATER + 5))
    stall.says(ev.StepStarted(), waits, writer="waiting")
    assert stall.reason("wait.time").until == stamp(LATER + 5)
    stall = Stall(PLAIN)
    child = ev.Child("x9", "sub/play")
    stall.says(ev.StepStarted(), ev.TaskWaiting("start_task", 1, "start_task/1", child), writer="waiting")
    below = Answer("x9", "running", (Reason("paused", "blocked", "it was paused"),))
    reason = stall.reason("wait.child", others={"x9": below})
    assert (reason.values["child"], reason.because) == ("x9", (below,))
    assert why_waits.children(stall.view()) == ["x9"]


def test_a_wait_of_a_paused_execution_says_so() -> None:
    stall = Stall(PLAIN)
    stall.says(ev.StepStarted(), ev.TaskWaiting("start_task", 1, "start_task/1", signal="go"), writer="waiting")
    stall.control_says(ev.PauseRequested("lunch", "ada", 1))
    stall.control()
    answer = stall.why()
    assert (answer.status, causes(answer)) == ("paused", ["paused", "wait.signal"])
    assert "before someone resumes it" in answer.reasons[1].text


LIMITED = "- {step: start, spec: {policy: {limits: {key: k, max: 1, rate: 2/1m}}}, tool: {kind: noop}}"


def test_places_tell_their_holders_and_the_line() -> None:
    stall = Stall(LIMITED)
    ledger = Ledger({"x2/a:1": NOW}, heads={"s2": (-9, 0, "", "x3/a:1.-000001")})
    reason = stall.reason("limit.places", ledgers={"k": ledger}, others={"x2": Answer("x2", "paused")})
    assert (reason.values["before"], [each.execution_id for each in reason.because]) == (1, ["x2"])
    assert reason.values["holders"] == [{"execution_id": "x2", "place": "a:1", "since": stamp(NOW), "own": False}]
    wants = why_limits.wanted(stall.view(), lambda _: stall.plan, {})
    assert why_limits.followed({"k": ledger}, wants, "x1") == ["x2"]
    assert why_limits.followed({}, wants, "x1") == []


def test_a_rate_tells_when_it_lets_the_next_in() -> None:
    ledger = Ledger(given=[LATER - 30, LATER - 10], count=2, period_s=60)
    reason = Stall(LIMITED).reason("limit.rate", ledgers={"k": ledger})
    assert reason.until == stamp(LATER + 30)


def test_a_free_place_that_nobody_gives() -> None:
    stall = Stall(LIMITED)
    assert stall.doubts(world_of()) == {"scheduler"}
    assert stall.doubts(world_of(ledgers={"k": Ledger({"x2/a:1": NOW})})) == frozenset()
    assert stall.reason("scheduler.gone", members={"scheduler": ()}).values["key"] == "k"
    assert "one is free" in stall.reason("limit.places", members={"scheduler": ("s",)}).text


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


def test_a_refused_request_is_over() -> None:
    from shared.engine import routing
    from shared.events.request import Request

    events = routing.start("x1", Request("no/such"), "", "no playbook 'no/such' is registered", NOW)
    view = viewed("x1", [(1, Record("x1", "router", 1, stamp(NOW), tuple(events)))], lambda _: plan_of(PLAIN))
    answer = why.explain(view, World(LATER), lambda _: plan_of(PLAIN))
    assert (answer.status, causes(answer), answer.path) == ("failed", ["request.refused"], "no/such")


def test_an_undecided_record_tells_who_is_late() -> None:
    stall = Stall(PLAIN)
    stall.says(ev.StepStarted(), ev.StepDone())
    at, seq = seconds(stall.log[-1].ts), len(stall.log)
    assert stall.reason("router.deciding", now=at + 1).kind == "running"
    assert stall.doubts(world_of(at + 1)) == frozenset()
    assert stall.doubts(world_of(at + 9)) == {"router"}
    gone = stall.reason("router.gone", now=at + 9, members={"router": ()})
    assert gone.remedy == "start a router: python -m services.router"
    behind = stall.reason("router.behind", now=at + 9, members={"router": ("r",)}, cursors={"router": seq - 2})
    assert "at most 2 records" in behind.text
    stuck = stall.reason("quarantined", now=at + 9, members={"router": ("r",)}, cursors={"router": seq})
    assert stuck.values["events"] == ["next.selected", "playbook.processed", "workflow.finished"]


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
    with pytest.raises(Broken) as broken:
        viewed("x1", entries, lambda _: stall.plan)
    assert (broken.value.seq, "the log has a gap" in broken.value.reason) == (len(entries), True)
    stall = Stall(LOOP)
    entries = list(enumerate(stall.log, 1))
    entries[1] = (2, replace(entries[1][1], n=7))
    stall.says(ev.StepStarted(), index=0, writer="iteration")
    with pytest.raises(Broken, match="scheduler event 7 follows 0") as broken:
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
