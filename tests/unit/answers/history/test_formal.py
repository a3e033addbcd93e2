"""The formal view of a history: every event once, under the names of the documents, whatever went wrong on the way."""

from collections import Counter
from typing import Any

import pytest

from shared.answers.history.formal import FormalView, formal
from shared.answers.rehearsal.order import Seeded
from shared.answers.rehearsal.setting import Faults
from shared.answers.rehearsal.types import Answered, Need, Rehearsed, Took
from shared.dsl.model.plan import Plan
from shared.events import model as ev
from shared.events.outcome import failed, ok
from shared.events.record import envelopes
from shared.tools.testing.effectless import natural
from tests.sim.books.playbooks import BOOKS, Playbook, compiled
from tests.unit.answers.rehearsal.test_rehearsal import play, run_book
from tests.unit.answers.tale import EXECUTION, Tale, done, entered, lease, retried
from tests.unit.engine.support import plan_of

ENVELOPE = {
    "event_id", "event_type", "ts", "execution_id", "n", "source", "entity_type", "entity_id", "status",
    "step_run_id", "task_run_id", "trace_id", "parent_id", "payload", "timestamp", "name", "entity", "data", "seq",
}  # fmt: skip
ENTITIES = {"playbook", "workflow", "step", "tool", "loop", "sink", "retry", "case"}
STATUSES = {"in_progress", "success", "error", "paused", "skipped"}
Events = list[dict[str, Any]]


def seen(found: Rehearsed, plan: Plan | None) -> Events:
    return list(formal(found.entries, lambda _digest: plan))


def of(events: Events, *types: str) -> list[tuple[str, str, Any]]:
    """Type, status and entity of these, without the number of the run."""
    return [(each["event_type"], each["status"], each["entity_id"]) for each in events if each["event_type"] in types]


@pytest.mark.parametrize("faults", [Faults(), Faults(crash=0.3, dup=0.3)], ids=["none", "all"])
@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.name)
def test_every_event_of_the_log_is_there_and_steps_start_and_finish_once(book: Playbook, faults: Faults) -> None:
    found = run_book(book, book.payload(7), Seeded(f"formal {book.name}"), faults)
    events = seen(found, compiled(book.source).plan)
    ids = [each["event_id"] for each in events]
    assert len(ids) == len(set(ids))
    for each in events:
        assert set(each) == ENVELOPE
        assert (each["timestamp"], each["entity"], each["data"]) == (each["ts"], each["entity_type"], each["payload"])
        assert each["entity"] in ENTITIES
        assert each["status"] in STATUSES
    windows = {each["event_id"] for _, record in found.entries for each in envelopes(record)
               if each["event_type"] == "loop.iteration.started"}
    own = {each["event_id"] for _, record in found.entries for each in envelopes(record)} - windows
    assert own <= set(ids)
    started = Counter(each["step_run_id"] for each in events if each["event_type"] == "step.started")
    finished = Counter(each["step_run_id"] for each in events if each["event_type"] == "step.finished")
    assert set(started.values()) == {1}
    assert set(finished.values()) == {1}
    assert finished.keys() <= started.keys()
    assert all(each["source"] == "server" for each in events if each["event_type"] == "step.started")
    if found.status == "completed":
        assert finished.keys() == started.keys()


SINKS = """
- step: start
  tool: {kind: python, code: "result = 1"}
  sink:
    - {tool: {kind: python, code: "result = 2"}, when: "{{ result == 1 }}"}
    - {tool: {kind: python, code: "result = 3"}, when: "{{ result == 2 }}"}
    - {tool: {kind: python, code: "result = 4"}}
"""


def ones(_need: Need) -> Answered:
    return Took(ok(1), 0.1)


def noops(need: Need) -> Answered:
    return natural(need) if need.kind == "noop" else ones(need)


def test_a_sink_starts_and_is_processed_or_skipped() -> None:
    plan = plan_of(SINKS)
    events = seen(play(plan, noops), plan)
    run = "start:1"
    assert of(events, "tool.started", "tool.processed", "sink.started", "sink.processed") == [
        ("tool.started", "in_progress", f"{run}/start_task/1"), ("tool.processed", "success", f"{run}/start_task/1"),
        ("sink.started", "in_progress", f"{run}/start_sink/1"), ("sink.processed", "success", f"{run}/start_sink/1"),
        ("sink.processed", "skipped", f"{run}/start_sink_2/1"),
        ("sink.started", "in_progress", f"{run}/start_sink_3/1"),
        ("sink.processed", "success", f"{run}/start_sink_3/1"),
    ]
    assert {each["entity"] for each in events if each["event_type"].startswith("sink.")} == {"sink"}
    assert {each["name"] for each in events} >= {"SinkStarted", "SinkProcessed", "ToolStarted", "ToolCompleted"}


def test_a_sink_that_fails_is_processed_with_an_error() -> None:
    plan = plan_of("""
- step: start
  tool: {kind: python, code: "result = 1"}
  sink: {tool: {kind: http, url: "http://x"}}
""")
    answer = lambda need: Took(failed("http", "no"), 0.1) if need.kind == "http" else noops(need)  # noqa: E731
    events = seen(play(plan, answer), plan)
    assert of(events, "sink.processed", "step.finished") == [
        ("sink.processed", "error", "start:1/start_sink/1"), ("step.finished", "error", "start:1")]


def test_a_sink_whose_condition_cannot_be_evaluated_is_processed_with_an_error() -> None:
    plan = plan_of("""
- step: start
  tool: {kind: python, code: "result = 1"}
  sink: {tool: {kind: noop}, when: "{{ result + 'x' }}"}
""")
    events = seen(play(plan, noops), plan)
    assert of(events, "sink.started", "sink.processed") == [("sink.processed", "error", "start:1/start_sink/1")]


def test_without_its_playbook_a_sink_is_a_tool() -> None:
    events = seen(play(plan_of(SINKS), noops), None)
    assert not of(events, "sink.started", "sink.processed")
    assert ("tool.started", "in_progress", "start:1/start_sink/1") in of(events, "tool.started")


def test_rules_of_a_case_are_evaluated_where_they_act_and_where_they_route() -> None:
    plan = plan_of("""
- step: start
  tool: {kind: python, code: "result = 1"}
  case:
    - {when: "{{ event.name == 'step.enter' }}", then: {set: {at: 1}}}
    - {when: "{{ event.name == 'call.done' }}", then: {set: {seen: 1}, next: [{step: end}]}}
- step: end
""")
    events = seen(play(plan, noops), plan)
    cases = [(each["event_type"], each["source"], each["entity"], each["name"]) for each in events
             if each["event_type"].startswith("case.")]
    started, evaluated = ("case.started", "case", "CaseStarted"), ("case.evaluated", "case", "CaseEvaluated")
    assert cases == [(each[0], source, *each[1:]) for source in ("worker", "worker", "server")
                     for each in (started, evaluated)]
    types = [each["event_type"] for each in events]
    assert types[types.index("next.evaluated") - 1] == "case.evaluated"
    assert types.count("next.evaluated") == 2


def test_a_retry_starts_with_the_end_of_an_attempt_and_is_processed_with_its_own() -> None:
    plan = plan_of("""
- step: start
  tool: {kind: python, code: "result = 1"}
  retry: {max_attempts: 3}
""")
    answer = lambda need: Took(failed("broken", "no"), 0.1) if need.attempt < 3 else noops(need)  # noqa: E731
    events = seen(play(plan, answer), plan)
    task = "start:1/start_task"
    assert of(events, "tool.processed", "retry.started", "retry.processed") == [
        ("tool.processed", "error", f"{task}/1"), ("retry.started", "in_progress", f"{task}/2"),
        ("tool.processed", "error", f"{task}/2"), ("retry.processed", "error", f"{task}/2"),
        ("retry.started", "in_progress", f"{task}/3"),
        ("tool.processed", "success", f"{task}/3"), ("retry.processed", "success", f"{task}/3"),
    ]
    assert [each["name"] for each in events if each["event_type"] == "tool.processed"] == [
        "ToolErrored", "ToolErrored", "ToolCompleted"]
    assert [each["data"]["attempt"] for each in events if each["event_type"] == "retry.started"] == [2, 3]


def test_another_call_by_a_retry_policy_is_a_retry_too_and_its_delay_is_none() -> None:
    plan = plan_of("""
- step: start
  tool: {kind: http, url: "http://x", params: {page: 1}}
  retry:
    - when: "{{ response.data.more }}"
      then: {max_attempts: 9, initial_delay: 1, next_call: {params: {page: "{{ response.data.page + 1 }}"}}}
""")

    def pages(need: Need) -> Answered:
        if need.kind != "http":
            return natural(need)
        page = need.config["params"]["page"]
        return Took(ok({"data": {"page": page, "more": page < 3}}, http={"status": 200}), 0.1)

    events = seen(play(plan, pages), plan)
    types = [kind for kind, _, _ in of(events, "tool.processed", "retry.started", "retry.processed")]
    assert types == ["tool.processed", "retry.started", "tool.processed", "retry.processed", "retry.started",
                     "tool.processed", "retry.processed"]
    assert "task.retried" in {each["event_type"] for each in events}, "the pause keeps our name"


@pytest.mark.parametrize(("policy", "source"), [("distributed", "server"), ("local", "worker")])
def test_every_iteration_starts_by_itself_with_its_index(policy: str, source: str) -> None:
    plan = plan_of(f"""
- step: start
  loop: {{in: [4, 5, 6], iterator: n, spec: {{mode: parallel, policy: {{exec: {policy}}}}}}}
  tool: {{kind: python, code: "result = 1"}}
""")
    events = seen(play(plan, noops), plan)
    begun = [each for each in events if each["event_type"] == "loop.iteration.started"]
    assert {(each["source"], each["data"]["index"], each["entity_id"], each["name"]) for each in begun} == {
        (source, index, f"start:1.{index}", "LoopIterationStarted") for index in range(3)}
    ended = [each for each in events if each["event_type"] == "loop.iteration.finished"]
    assert {(each["data"]["index"], each["entity_id"], each["status"]) for each in ended} == {
        (index, f"start:1.{index}", "success") for index in range(3)}
    assert of(events, "loop.finished", "step.finished") == [
        ("loop.finished", "success", "start:1"), ("step.finished", "success", "start:1")]


def test_a_loop_that_fails_finishes_before_its_step() -> None:
    plan = plan_of("""
- {step: start, loop: {in: [1, 2], iterator: n}, tool: {kind: python, code: "result = 1"}}
""")
    events = seen(play(plan, lambda _need: Took(failed("broken", "no"), 0.1)), plan)
    assert of(events, "loop.finished", "step.finished") == [
        ("loop.finished", "error", "start:1"), ("step.finished", "error", "start:1")]


def test_tokens_are_enqueued_and_claimed_and_arcs_enqueue() -> None:
    plan = plan_of("""
- {step: start, tool: {kind: noop}, next: {arcs: [{step: end}]}}
- {step: end}
""")
    found = play(plan)
    events = seen(found, plan)
    types = [each["event_type"] for each in events if each["event_type"].startswith(("token.", "next.", "step."))]
    assert types == [
        "token.created", "token.enqueued", "token.claimed", "step.scheduled", "step.started",
        "step.finished", "next.evaluated", "token.created", "token.enqueued", "next.enqueued",
        "token.claimed", "step.scheduled", "step.started", "step.finished", "next.evaluated",
    ]
    (enqueued,) = [each for each in events if each["event_type"] == "next.enqueued"]
    assert (enqueued["step_run_id"], enqueued["data"]["step"], enqueued["source"]) == ("start:1", "end", "server")
    claims = [each["data"] for each in events if each["event_type"] == "token.claimed"]
    assert [(each["step"], each["run_id"]) for each in claims] == [("start", "start:1"), ("end", "end:1")]


def test_a_pause_has_its_status() -> None:
    tale = Tale().begin("a").at(1, "router", ev.PlaybookPaused("look", "me")).at(2, "router", ev.PlaybookResumed("me"))
    events = list(formal(tale.entries, lambda _digest: None))
    assert of(events, "playbook.resumed") == [("playbook.resumed", "in_progress", EXECUTION)]
    paused = next(each for each in events if each["event_type"] == "playbook.paused")
    assert (paused["status"], paused["name"], paused["data"]["reason"]) == ("paused", "PlaybookPaused", "look")


def test_a_cancelled_step_is_finished_once_and_skipped() -> None:
    held = lease("a:1", 0.1)
    tale = Tale().begin("a").work(1, held, ev.StepStarted(), ev.TaskStarted("work"))
    tale.at(2, "router", ev.StepCancelled("a:1", "a", "enough", "default"))
    tale.work(3, held, ev.StepFailed({"kind": "cancelled"}))
    events = list(formal(tale.entries, lambda _digest: None))
    assert of(events, "step.finished", "step.failed", "lease.claimed") == [
        ("lease.claimed", "in_progress", "a:1"), ("step.finished", "skipped", "a:1"), ("step.failed", "error", "a:1")]


def test_what_a_worker_says_too_late_ends_nothing_and_what_it_wrote_twice_is_once() -> None:
    first, second = lease("a:1", 0.1), lease("a:1", 0.1, delivery=2)
    tale = Tale().begin("a").work(1, first, ev.StepStarted(), ev.TaskStarted("work"))
    tale.work(2, second, ev.StepStarted()).work(3, first, done(), ev.StepDone())
    tale.work(4, second, retried(), ev.TaskStarted("work", 2))
    tale.entries.append((len(tale.entries) + 1, tale.entries[-1][1]))
    tale.work(6, second, done(attempt=2), ev.StepDone()).end(7, "a:1")
    events = list(formal(tale.entries, lambda _digest: None))
    assert len({each["event_id"] for each in events}) == len(events)
    assert [each["event_type"] for each in events if each["seq"] > 1] == [
        "lease.claimed", "tool.started", "lease.claimed", "tool.processed", "step.done",
        "tool.processed", "retry.started", "tool.started", "tool.processed", "retry.processed", "step.finished",
        "next.evaluated", "workflow.finished", "playbook.processed",
    ]


def test_it_can_be_asked_record_by_record() -> None:
    tale = Tale().at(0, "router", ev.TokenCreated("t1", "a"), entered("a", "t1"))
    view = FormalView(lambda _digest: None)
    (record,) = [record for _, record in tale.entries]
    assert [each["event_type"] for each in view.of(record)] == [
        "token.created", "token.enqueued", "token.claimed", "step.scheduled", "step.started"]
    assert list(view.of(record)) == []
