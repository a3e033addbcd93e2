"""The checker: real histories pass, and each way of corrupting one is told by its rule."""

import pytest
from msgspec.structs import replace

from shared.events import model as ev
from shared.events.outcome import Result, ok
from tests.unit.answers.histories import (
    CHAIN,
    FAIL_FAST,
    FAN,
    LARGE,
    PAGES,
    PARALLEL,
    RETRY,
    UNHANDLED,
    at,
    change,
    check,
    history,
    later,
    rewrite,
    rules,
)


@pytest.mark.parametrize("execution_id", [CHAIN, FAN, PARALLEL, PAGES, RETRY, UNHANDLED, FAIL_FAST, LARGE])
def test_history_of_the_real_services_is_clean_and_so_is_every_beginning_of_it(execution_id: str) -> None:
    entries = history(execution_id)
    for length in range(len(entries) + 1):
        assert check(execution_id, entries[:length]) == []


def test_report_that_was_appended_twice_is_no_violation() -> None:
    entries = history(CHAIN)
    report = entries[at(entries, ev.TaskDone)][1]
    assert check(CHAIN, later(entries, report)) == []


def test_reports_of_a_lease_that_was_taken_over_count_for_nothing() -> None:
    entries = history(CHAIN)
    report = entries[at(entries, ev.TaskDone)][1]
    assert report.lease is not None
    early = replace(report.lease, epoch=(1, 1), worker="zombie")
    assert check(CHAIN, later(entries, replace(report, n=1, lease=early))) == []


@pytest.mark.parametrize("execution_id", [CHAIN, FAN, PARALLEL, PAGES])
def test_a_log_without_its_beginning_is_told_as_that_and_nothing_else(execution_id: str) -> None:
    """As a stream with a limit leaves it: the oldest records are gone."""
    entries = history(execution_id)
    for cut in range(1, len(entries)):
        (found,) = check(execution_id, entries[cut:])
        assert found.rule == "beginning"
        assert "its beginning is gone from the log" in found.message


def test_missing_router_record_is_a_gap() -> None:
    entries = history(CHAIN)
    del entries[at(entries, ev.NextSelected)]
    assert "numbering" in rules(CHAIN, entries)


def test_missing_report_is_a_gap_of_its_lease() -> None:
    entries = history(PAGES)
    del entries[at(entries, ev.TaskDone)]
    assert "numbering" in rules(PAGES, entries)


def test_two_different_records_with_one_number_are_told() -> None:
    entries = history(CHAIN)
    report = entries[at(entries, ev.TaskDone)][1]
    assert "numbering" in rules(CHAIN, later(entries, replace(report, ts="2030-01-01T00:00:00.000000Z")))


def test_record_of_another_execution_is_told() -> None:
    entries = history(CHAIN)
    assert "record" in rules(CHAIN, rewrite(entries, -1, lambda record: replace(record, execution_id="other")))


def test_worker_record_without_a_lease_is_told() -> None:
    entries = history(CHAIN)
    place = at(entries, ev.TaskDone)
    assert "record" in rules(CHAIN, rewrite(entries, place, lambda record: replace(record, lease=None)))


def test_routing_decision_that_does_not_follow_is_told() -> None:
    assert "decision" in rules(CHAIN, change(history(CHAIN), ev.StepScheduled, 1, args={"y": 99}))


def test_first_decision_that_does_not_follow_is_told() -> None:
    assert "decision" in rules(CHAIN, change(history(CHAIN), ev.PlaybookStarted, workload={"x": 5}))


def test_decision_that_had_not_seen_its_cause_is_told() -> None:
    entries = history(CHAIN)
    place = at(entries, ev.NextSelected)
    assert "decision" in rules(CHAIN, rewrite(entries, place, lambda record: replace(record, as_of=0)))


def test_decision_split_over_two_records_is_told() -> None:
    entries = history(CHAIN)
    place = at(entries, ev.NextSelected)
    seq, record = entries[place]
    first, second = record.events[:1], record.events[1:]
    halves = [(seq, replace(record, events=first)), (seq + 1, replace(record, n=record.n + 1, events=second))]
    moved = [(number + 1, entry) for number, entry in entries[place + 1 :]]
    found = check(CHAIN, entries[:place] + halves + moved)
    assert [violation.seq for violation in found if violation.rule == "decision"][:1] == [seq]


def test_end_decided_from_a_fenced_report_is_told() -> None:
    entries = history(CHAIN)
    place = at(entries, ev.StepDone)
    seq, report = entries[place]
    assert report.lease is not None
    claim = replace(
        report, n=1, events=(ev.StepStarted(),),
        lease=replace(report.lease, epoch=(report.lease.epoch[0], report.lease.epoch[1] + 1), worker="another"),
    )
    moved = [(number + 1, replace(record, as_of=record.as_of + 1 if record.as_of >= seq else record.as_of))
             for number, record in entries[place:]]
    assert {"decision", "run"} <= rules(CHAIN, [*entries[:place], (seq, claim), *moved])


def test_scheduling_decision_that_does_not_follow_is_told() -> None:
    assert "decision" in rules(PARALLEL, change(history(PARALLEL), ev.LoopStarted, items=[0, 0, 0]))


def test_token_made_twice_is_told() -> None:
    assert "token" in rules(CHAIN, change(history(CHAIN), ev.TokenCreated, 1, token_id="t1"))


def test_token_consumed_at_another_step_is_told() -> None:
    assert "token" in rules(FAN, change(history(FAN), ev.TokenJoined, tokens=("t1", "t2")))


def test_tokens_must_be_those_of_the_selected_arcs() -> None:
    assert "token" in rules(CHAIN, change(history(CHAIN), ev.NextSelected, arcs=("last",)))


def test_run_scheduled_twice_is_told() -> None:
    assert "run" in rules(CHAIN, change(history(CHAIN), ev.StepScheduled, 1, run_id="start:1"))


def test_run_that_never_ends_is_told() -> None:
    entries = history(UNHANDLED)
    place = at(entries, ev.StepCancelled)
    kept = tuple(event for event in entries[place][1].events if not isinstance(event, ev.StepCancelled))
    assert "run" in rules(UNHANDLED, rewrite(entries, place, lambda record: replace(record, events=kept)))


def test_lease_that_goes_on_after_its_end_is_told() -> None:
    entries = history(CHAIN)
    report = entries[at(entries, ev.StepDone)][1]
    more = replace(report, n=report.n + len(report.events), events=(ev.StepDone(Result(1)),))
    assert "terminal" in rules(CHAIN, later(entries, more))


def test_router_that_goes_on_after_the_end_is_told() -> None:
    entries = history(CHAIN)
    last = entries[-1][1]
    more = replace(last, n=last.n + len(last.events), events=(ev.WorkflowStarted(),))
    assert "ending" in rules(CHAIN, later(entries, more))


def test_processed_without_finished_is_told() -> None:
    entries = history(CHAIN)
    kept = tuple(event for event in entries[-1][1].events if not isinstance(event, ev.WorkflowFinished))
    assert "ending" in rules(CHAIN, rewrite(entries, -1, lambda record: replace(record, events=kept)))


def test_loop_done_before_its_last_iteration_is_told() -> None:
    entries = history(PARALLEL)
    del entries[at(entries, ev.IterationDone, -1)]
    assert "loop" in rules(PARALLEL, entries)


def test_too_many_iterations_in_flight_are_told() -> None:
    assert "loop" in rules(PARALLEL, change(history(PARALLEL), ev.IterationStarted, count=5))


def test_iteration_started_twice_is_told() -> None:
    assert "loop" in rules(PARALLEL, change(history(PARALLEL), ev.IterationStarted, 1, first=0))


def test_loop_that_ends_twice_is_told() -> None:
    entries = history(PARALLEL)
    done = entries[at(entries, ev.LoopDone)][1]
    more = replace(done, n=done.n + len(done.events))
    assert "loop" in rules(PARALLEL, later(entries, more))


def test_ctx_patch_that_nobody_reported_is_told() -> None:
    assert "ctx" in rules(FAN, change(history(FAN), ev.CtxPatched, patch={"seen": {"$append": "x"}}))


def test_lost_ctx_patch_is_told() -> None:
    entries = history(RETRY)
    place = at(entries, ev.CtxPatched)
    assert "ctx" in rules(RETRY, rewrite(entries, place, lambda record: replace(record, events=record.events[1:])))


def test_step_that_is_given_another_ctx_is_told() -> None:
    assert "ctx" in rules(PARALLEL, change(history(PARALLEL), ev.StepScheduled, 1, scope=ev.Scope(ctx={"total": -1})))


def test_finished_task_that_runs_again_is_told() -> None:
    entries = history(PAGES)
    place = at(entries, ev.TaskDone, 1)
    report = entries[place][1]
    done = next(event for event in report.events if isinstance(event, ev.TaskDone))
    twice = (*report.events, done)
    assert "pipeline" in rules(PAGES, rewrite(entries, place, lambda record: replace(record, events=twice)))


def test_attempt_out_of_order_is_told() -> None:
    assert "pipeline" in rules(RETRY, change(history(RETRY), ev.TaskRetried, attempt=4))


def test_result_that_is_not_the_last_tasks_is_told() -> None:
    assert "pipeline" in rules(CHAIN, change(history(CHAIN), ev.TaskDone, outcome=ok(77)))


def test_success_reported_by_a_failed_pipeline_is_told() -> None:
    entries = history(UNHANDLED)
    place = at(entries, ev.StepFailed)
    events = (*entries[place][1].events[:-1], ev.StepDone())
    assert "pipeline" in rules(UNHANDLED, rewrite(entries, place, lambda record: replace(record, events=events)))


def test_run_that_failed_by_a_limit_need_not_have_finished_its_tasks() -> None:
    entries = history(CHAIN)
    place = at(entries, ev.StepDone)
    events = (ev.StepFailed({"kind": "limit", "message": "a record of 900001 bytes"}),)
    lease = entries[place][1].lease
    assert lease is not None
    report = replace(entries[place][1], n=1, events=(ev.StepStarted(), *events), lease=replace(lease, epoch=(1, 1)))
    before = [entry for entry in entries[:place] if entry[1].lease is None or entry[1].lease.run_id != lease.run_id]
    assert check(CHAIN, [*before, (entries[place][0], report)]) == []


def test_violation_names_rule_place_and_reason() -> None:
    found = check(CHAIN, change(history(CHAIN), ev.PlaybookProcessed, result=Result("other")))
    assert [violation.rule for violation in found] == ["decision"]
    assert "playbook.processed" in str(found[0])
    assert str(found[0]).startswith(f"decision @{history(CHAIN)[-1][0]}:")
