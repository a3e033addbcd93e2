"""Rehearsals run playbooks to their end without services: every history verifies, in any order and under any fault."""

import subprocess
import sys
from typing import Any

import pytest

from shared.answers.rehearsal.order import Chooser, FirstReady, Seeded
from shared.answers.rehearsal.rehearse import rehearse, result_of, step_result
from shared.answers.rehearsal.setting import Conditions, Faults, Limits, Opening
from shared.answers.rehearsal.types import Answered, Awaits, Ended, Need, Never, Rehearsed, Took, Wish
from shared.answers.verify.verify import verify
from shared.dsl.model.plan import Plan
from shared.engine.pipeline import history as pipeline_history
from shared.events import model as ev
from shared.events.outcome import Result, failed, ok
from shared.events.waits import Waits
from shared.tools import registry
from shared.tools.base.contract import Call
from shared.tools.testing.effectless import natural
from tests.sim import tools as sim_tools
from tests.sim.books.playbooks import BOOKS, Expected, Playbook, compiled
from tests.unit.engine.support import plan_of

KINDS = registry.specs()
BY_NAME = {book.name: book for book in BOOKS}
ORDERS = [("first", Faults()), *((f"seed {k}", Faults()) for k in range(3)), ("crash", Faults(crash=0.3)),
          ("dup", Faults(dup=0.4)), ("all", Faults(crash=0.3, dup=0.3))]


def play(plan: Plan, answer: Any = natural, **fields: Any) -> Rehearsed:
    """A rehearsal whose history holds, or the test fails."""
    opening = Opening(**{name: fields.pop(name) for name in Opening.__struct_fields__ if name in fields})
    wishes = fields.pop("wishes", ())
    found = rehearse(plan, answer, KINDS, opening, Conditions(**fields), wishes)
    assert verify(found.execution_id, found.entries, lambda _digest: plan, found.values) == []
    return found


def simulated(need: Need) -> Answered:
    """The tools of the simulated world, whose `args` say what a call does."""
    if need.kind == "playbook":
        waits = natural(need)
        assert isinstance(waits, Waits)
        assert waits.child is not None
        child = run_book(BY_NAME[waits.child.path], waits.child.payload, FirstReady(), Faults())
        status = child.status
        assert status in ("completed", "failed")
        return Awaits(waits, Ended(status, child.state.result or Result(), child.state.error, seconds=1.0))
    if need.kind in ("wait", "noop"):
        return natural(need)
    if need.frame >= 0:
        count, size = need.config["command"].params
        rows = [{"k": k} for k in range(need.frame * size, min((need.frame + 1) * size, count))]
        return Took(ok({"rows": rows, "columns": ["k"], "row_count": len(rows)}, shape="sql"), 0.05)
    if "params" in need.config:
        return Took(sim_tools.page(Call(need.config, {}, None, need.key, 60.0)), 0.1)
    args = need.config.get("args") or {}
    return Took(sim_tools.answer(args, need.key), args.get("takes", 0.002))


def run_book(book: Playbook, payload: dict[str, Any], chooser: Chooser, faults: Faults) -> Rehearsed:
    plan = compiled(book.source).plan
    assert plan is not None
    return play(plan, simulated, payload=payload, chooser=chooser, faults=faults, execution_id="e1")


@pytest.mark.parametrize("name", sorted(BY_NAME))
@pytest.mark.parametrize(("order", "faults"), ORDERS, ids=[order for order, _ in ORDERS])
def test_every_book_of_the_simulated_world_ends_where_it_must(name: str, order: str, faults: Faults) -> None:
    book = BY_NAME[name]
    for number in (2, 7):
        payload = book.payload(number)
        chooser = FirstReady() if order == "first" else Seeded(f"{order} {name} {number}")
        found = run_book(book, payload, chooser, faults)
        ctx = {key: sorted(value) if isinstance(value, list) else value for key, value in found.state.ctx.items()}
        got = Expected(found.status, result_of(found), ctx, (found.state.error or {}).get("kind", ""))
        assert got == book.expected(payload)
        assert not found.needs


TWO = """
- step: start
  tool:
    - {name: fetch, kind: http, url: "https://x.test/{{ workload.city }}", headers: {token: "{{ keychain.api.key }}"}}
    - {name: save, kind: python, code: "-", args: {rows: "{{ fetch.data }}", call: "{{ _task }}"}}
  next: {arcs: [{step: end, when: "{{ start.n > 1 }}"}, {step: other}]}
- step: other
  tool: {kind: noop}
- step: end
"""


def test_a_call_is_rendered_as_a_worker_renders_it_without_secrets() -> None:
    plan = plan_of(TWO, '{city: Oslo}\nkeychain: [{name: api, kind: bearer, credential: stored}]')
    answers = {"fetch": ok({"status_code": 200, "headers": {}, "data": [1, 2]}, shape="http"), "save": ok({"n": 2})}
    found = play(plan, lambda need: answers[need.task])
    fetch, save = found.calls
    assert fetch.config == {"url": "https://x.test/Oslo", "headers": {"token": "<keychain.api.key>"}}
    assert (fetch.step, fetch.run_id, fetch.index, fetch.attempt, fetch.number) == ("start", "start:1", -1, 1, 1)
    assert save.config["args"] == {"rows": [1, 2], "call": "save"}
    assert save.key == "rehearsal/start:1/save/2"
    assert found.status == "completed"
    assert step_result(found, "start") == {"n": 2}


def test_an_unanswered_call_stops_its_run_and_nothing_else() -> None:
    plan = plan_of("""
    - step: start
      next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
    - step: a
      tool: {kind: http, url: "https://x.test"}
    - step: b
      tool: {kind: noop, args: {n: 1}}
      next: {arcs: [{step: c}]}
    - step: c
      tool: {kind: python, code: "-"}
    """)
    found = play(plan, natural)
    assert found.status == "stuck"
    assert [need.step for need in found.needs] == ["a", "c"]
    assert found.reason == "nobody answers the call of task a_task (http) in step a, and 1 more"
    assert step_result(found, "b") == {"n": 1}


def test_retries_and_waits_take_virtual_time_only() -> None:
    plan = plan_of("""
    - step: start
      tool:
        - name: call
          kind: python
          code: "-"
          spec: {policy: {rules: [{when: "{{ outcome.error }}", then: {do: retry, attempts: 3, delay: 3600}}]}}
        - {name: sleep, kind: wait, for: 2d}
    """)
    outcomes = iter([failed("flaky", "no"), failed("flaky", "no"), ok("yes")])
    found = play(plan, lambda need: natural(need) or next(outcomes))
    assert found.status == "completed"
    assert [need.attempt for need in found.calls] == [1, 2, 3, 1]
    assert 2 * 86_400 < found.seconds < 3 * 86_400  # a retry waits 300 s at most


def test_a_call_that_never_ends_is_over_at_its_time() -> None:
    plan = plan_of("""
    - step: start
      spec: {policy: {lifecycle: {timeout_s: 30}}}
      tool: {kind: python, code: "-"}
    """)
    found = play(plan, lambda _need: Never())
    assert (found.status, (found.state.error or {})["kind"], found.seconds) == ("failed", "timeout", 30.0)


@pytest.mark.parametrize(("spec", "time"), [("{}", 3600.0), ("{policy: {lifecycle: {timeout_s: 7200}}}", 7200.0)])
def test_a_task_without_a_timeout_has_an_hour(spec: str, time: float) -> None:
    plan = plan_of(f"""
    - step: start
      spec: {spec}
      tool: {{kind: python, code: "-"}}
    """)
    for answer in (Never(), Took(ok(1), 100_000.0)):
        found = play(plan, lambda _need, answer=answer: answer)
        assert (found.status, (found.state.error or {})["kind"], found.seconds) == ("failed", "timeout", time)


def test_a_signal_ends_its_wait_whether_it_comes_before_or_after() -> None:
    plan = plan_of("""
    - step: start
      tool: {kind: signal, signal: go}
    """)
    for after in (0.0, 50.0):
        found = play(plan, natural, wishes=[Wish(ev.SignalReceived("go", {"n": 1}), after)])
        assert (found.status, result_of(found)) == ("completed", {"n": 1})
    stuck = play(plan, natural)
    assert (stuck.status, stuck.reason) == ("stuck", "run start:1 waits for signal go, which does not come")


def test_signals_that_one_decision_leaves_are_looked_at_by_the_next() -> None:
    plan = plan_of("""
    - step: start
      tool:
      - {name: before, kind: wait, for: 60s}
      - {name: ask, kind: signal, signal: go, schema: {type: string}}
    """)
    wishes = [Wish(ev.SignalReceived("go", n), 1.0) for n in range(250)]
    found = play(plan, natural, wishes=[*wishes, Wish(ev.SignalReceived("go", "yes"), 2.0)])
    assert (found.status, result_of(found), found.seconds) == ("completed", "yes", 60.0)


def test_places_are_given_as_the_limits_say() -> None:
    plan = plan_of("""
    - step: start
      spec: {policy: {limits: {key: "door", max: 2, rate: "2/m"}}}
      loop: {in: [1, 2, 3, 4, 5], iterator: i, spec: {mode: parallel, max_in_flight: 5}}
      tool: {kind: python, code: "-"}
    """)
    found = play(plan, lambda _need: Took(ok(1), 10.0))
    begun = [need.at for need in found.calls]
    assert begun == [0.0, 0.0, 60.0, 60.0, 120.0], "two at once, and two in a minute"


LOCAL = """
- step: start
  loop: {in: [1, 2, 3, 4], iterator: i, spec: {mode: parallel, max_in_flight: 2, policy: {exec: local}}}
  tool: {kind: python, code: "-"}
"""


def test_a_pause_lets_a_local_loop_finish_what_it_has_begun() -> None:
    wishes = [Wish(ev.PauseRequested(at=1), 5.0), Wish(ev.ResumeRequested(at=2), 100.0)]
    found = play(plan_of(LOCAL), lambda need: Took(ok(need.index), 10.0), wishes=wishes)
    assert [need.at for need in found.calls] == [0.0, 0.0, 100.0, 100.0]
    assert result_of(found) == [0, 1, 2, 3]


def test_a_cancel_stops_a_local_loop_and_the_claim_of_rows() -> None:
    cursor = plan_of("""
    - step: start
      loop: {cursor: {kind: postgres, connection: "postgres://", claim: "CLAIM"}, iterator: row}
      tool: {kind: noop}
    """)
    for plan in (plan_of(LOCAL), cursor):
        found = play(plan, lambda _need: Took(ok(1), 100.0), wishes=[Wish(ev.CancelRequested("enough"), 5.0)])
        assert (found.status, found.seconds) == ("cancelled", 5.0)


def test_a_claim_that_fails_for_the_moment_is_tried_again() -> None:
    plan = plan_of("""
    - step: start
      loop: {cursor: {kind: postgres, connection: "postgres://", claim: "TAKE {{ claim.size }}", frame: 2}, iterator: r}
      tool: {kind: noop, args: {k: "{{ r.k }}"}}
    """)

    def answer(need: Need) -> Answered:
        if need.frame < 0:
            return natural(need)
        if need.attempt == 1:
            return failed("connect", "not now", retryable=True)
        rows = [{"k": need.frame}] * (2 if need.frame < 2 else 0)
        return ok({"rows": rows, "columns": ["k"], "row_count": len(rows)}, shape="sql")

    found = play(plan, answer)
    assert result_of(found) == [{"k": 0}, {"k": 0}, {"k": 1}, {"k": 1}]
    claims = [(need.task, need.frame, need.attempt) for need in found.calls if need.frame >= 0]
    assert claims == [("claim", frame, attempt) for frame in (0, 1, 2) for attempt in (1, 2)]


def test_a_cancel_stops_what_runs() -> None:
    plan = plan_of("""
    - step: start
      tool: {kind: python, code: "-"}
    """)
    found = play(plan, lambda _need: Took(ok(1), 100.0), wishes=[Wish(ev.CancelRequested("enough"), 5.0)])
    assert (found.status, found.seconds) == ("cancelled", 5.0)
    assert any(isinstance(event, ev.StepFailed) for _, record in found.entries for event in record.events)


def test_a_killed_worker_makes_the_same_call_again() -> None:
    plan = plan_of("""
    - step: start
      tool:
        - {name: one, kind: python, code: "-"}
        - {name: two, kind: python, code: "-"}
    """)
    found = play(plan, lambda need: ok(need.task), faults=Faults(crash=1.0), seed=3)
    keys = [need.key for need in found.calls]
    assert found.crashes
    assert len(keys) > len(set(keys)) == 2
    assert {need.attempt for need in found.calls} == {1}
    assert result_of(found) == "two"


def test_the_same_seed_gives_the_same_history() -> None:
    plan = compiled(BY_NAME["sim/parallel"].source).plan
    assert plan is not None

    def once(seed: int) -> list[Any]:
        return play(plan, simulated, payload={"items": [1, 2, 3, 4]}, chooser=Seeded(seed), seed=seed,
                    faults=Faults(crash=0.2, dup=0.2)).entries

    assert once(1) == once(1)
    assert once(1) != once(2)


def test_faults_find_a_worker_that_takes_over_without_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    accept = pipeline_history.accept
    monkeypatch.setattr(
        pipeline_history, "accept", lambda *about: pipeline_history.History(epoch=accept(*about).epoch))
    plan = plan_of("""
    - step: start
      tool:
        - {name: one, kind: python, code: "-"}
        - {name: two, kind: python, code: "-"}
    """)
    found = [rehearse(plan, lambda need: ok(need.task), KINDS, conditions=Conditions(faults=Faults(0.5), seed=seed))
             for seed in range(20)]
    wrong = [verify(each.execution_id, each.entries, lambda _digest: plan, each.values) for each in found]
    assert {violation.rule for each in wrong for violation in each} >= {"pipeline"}


def test_a_rehearsal_ends_by_its_limits() -> None:
    plan = plan_of("""
    - step: start
      tool: {kind: noop}
      next: {arcs: [{step: again}]}
    - step: again
      tool: {kind: wait, for: 1d}
      next: {arcs: [{step: start}]}
    """)
    assert play(plan, natural, limits=Limits(events=200)).reason == "over 200 events"
    late = play(plan, natural, limits=Limits(seconds=86_400 * 3.5))
    assert (late.status, late.reason) == ("limit", "over 302400 seconds of virtual time")


def test_a_run_that_jumps_for_ever_ends_soon_after_the_limit_of_events() -> None:
    plan = plan_of("- {step: start, spec: {policy: {lifecycle: {timeout_s: 5}}}, tool: [{name: spin, kind: noop, "
                   "spec: {policy: {rules: [{else: {then: {do: jump, to: spin}}}]}}}]}")
    found = play(plan, natural, limits=Limits(events=200))
    assert (found.status, found.reason) == ("limit", "over 200 events")
    assert sum(len(record.events) for _, record in found.entries) < 210


def test_neither_rehearsals_nor_replays_need_a_tool() -> None:
    program = ("import sys, shared.answers.rehearsal.rehearse\n"
               "import shared.answers.replay.replay, shared.answers.debug.scope\n"
               "assert not [m for m in sys.modules if m.startswith(('shared.tools', 'shared.bus', 'asyncio', 'nats'))]")
    subprocess.run([sys.executable, "-c", program], check=True)
