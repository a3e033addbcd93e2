"""Where time went: every part told by hand, and sums that are exact in whatever the simulator lives through."""

from functools import cache

import pytest

from shared.answers.trace.critical_path import Trace, trace
from shared.answers.trace.shape import told
from shared.answers.trace.spans import PARTS, by_part, rank
from shared.engine.leases.lease_fit import child_of
from shared.errors import Corrupt
from shared.events import model as ev
from shared.events.record import Record
from shared.events.stamp import seconds
from tests.sim.books.playbooks import BOOKS
from tests.sim.checks import read_histories
from tests.sim.run import live, live_in_peace, quiet
from tests.unit.answers.histories import change
from tests.unit.answers.tale import EXECUTION, T0, Tale, done, entered, lease, retried


def traced(tale: Tale, now: float = 1000.0) -> Trace:
    found = trace(EXECUTION, tale.entries, T0 + now)
    assert_exact(found)
    return found


def assert_exact(found: Trace) -> None:
    """Spans follow each other without a gap; the parts of the critical path add up to the time of the execution."""
    assert sum(by_part(found.critical).values()) == found.end - found.start
    for spans in (found.critical, *(run.spans for run in found.runs)):
        assert [span.start for span in spans[1:]] == [span.end for span in spans[:-1]]
        assert all(span.end > span.start for span in spans)
    for run in found.runs:
        assert sum(by_part(run.spans).values()) == run.end - run.start
        for each in run.iterations:
            assert sum(by_part(each.spans).values()) == each.end - each.scheduled


def parts(found: Trace) -> dict[str, int]:
    """The critical path in milliseconds, without what took none."""
    return {part: round(took / 1000) for part, took in by_part(found.critical).items() if took}


def test_parts_of_a_plain_step() -> None:
    held = lease("a:1", 0.010)
    tale = Tale().begin("a").work(0.125, held, ev.StepStarted(), ev.TaskStarted("work"), done(took=0.1), ev.StepDone())
    assert parts(traced(tale.end(0.130, "a:1"))) == {"scheduling": 10, "queue": 15, "run": 100, "routing": 5}


def test_waiting_for_a_turn_at_a_tool_is_queueing() -> None:
    held, queued = lease("a:1", 0.0), done("two", 0.02)
    queued.outcome.meta["queued_s"] = 0.5
    tale = Tale().begin("a").work(0.1, held, ev.StepStarted(), done("one", 0.1)).work(0.65, held, queued, ev.StepDone())
    assert parts(traced(tale.end(0.65, "a:1"))) == {"run": 120, "reporting": 30, "queue": 500}


def test_tasks_of_one_record_are_laid_out_back_to_back() -> None:
    events = (ev.StepStarted(), done("one", 0.2), done("two", 0.3), ev.StepDone())
    found = traced(Tale().begin("a").work(1.0, lease("a:1", 0.1), *events).end(1.0, "a:1"))
    runs = [(span.about, span.start - found.start, span.end - found.start) for span in found.critical[2:]]
    assert runs == [("one", 500_000, 700_000), ("two", 700_000, 1_000_000)]


def test_what_a_worker_does_outside_of_tasks_is_reporting() -> None:
    held = lease("a:1", 0.0)
    tale = Tale().begin("a").work(0.1, held, ev.StepStarted()).work(1.0, held, done(took=0.5))
    tale.work(1.2, held, ev.StepDone()).end(1.2, "a:1")
    assert parts(traced(tale)) == {"queue": 100, "reporting": 600, "run": 500}


def test_pause_between_attempts_is_backoff() -> None:
    held = lease("a:1", 0.0)
    tale = Tale().begin("a").work(0.1, held, ev.StepStarted(), retried(took=0.1, delay=2.0))
    tale.work(2.3, held, done(took=0.1, attempt=2), ev.StepDone()).end(2.3, "a:1")
    assert parts(traced(tale)) == {"run": 200, "backoff": 2000, "reporting": 100}


def test_long_pause_without_a_worker_is_backoff_too() -> None:
    held, again = lease("a:1", 0.0), lease("a:1", 30.2)
    pause = ev.TaskWaiting("work", 2, "work/2/pause", until="later", pause=True)
    tale = Tale().begin("a").at(0.1, "waiting", ev.StepStarted(), retried(took=0.1, delay=30.0), pause, lease=held)
    tale.at(30.1, "scheduler", ev.TaskResumed("a:1", "work/2/pause"))
    tale.work(30.4, again, ev.StepStarted(), done(took=0.1, attempt=2), ev.StepDone()).end(30.4, "a:1")
    assert parts(traced(tale)) == {"run": 200, "backoff": 30_000, "scheduling": 100, "queue": 100}


def test_child_is_waited_for_until_it_has_ended() -> None:
    held, again = lease("a:1", 0.0), lease("a:1", 9.1)
    child = child_of(EXECUTION, held, "call/1")
    waits = ev.TaskWaiting("call", 1, "call/1", ev.Child(child, "some/child"))
    tale = Tale().begin("a").at(1.0, "waiting", ev.StepStarted(), waits, lease=held)
    tale.at(8.0, "control", ev.ChildEnded("a:1", "call/1", child, "completed"))
    tale.at(9.0, "scheduler", ev.TaskResumed("a:1", "call/1"))
    found = traced(tale.work(10.0, again, ev.StepStarted(), done("call"), ev.StepDone()).end(10.0, "a:1"))
    assert parts(found) == {"queue": 1900, "waiting": 7000, "scheduling": 1100}
    assert "some/child" in next(span.about for span in found.critical if span.part == "waiting")


def test_time_between_a_lost_worker_and_the_next_is_takeover() -> None:
    first, second = lease("a:1", 0.0), lease("a:1", 0.0, delivery=2)
    tale = Tale().begin("a").work(1.0, first, ev.StepStarted(), ev.TaskStarted("work"))
    tale.work(16.0, second, ev.StepStarted()).work(18.0, second, done(took=1.5), ev.StepDone()).end(18.0, "a:1")
    assert parts(traced(tale)) == {"queue": 1000, "takeover": 15_000, "reporting": 500, "run": 1500}


def test_time_until_a_limit_is_granted_is_its_own_part() -> None:
    tale = Tale().begin("a").at(3.0, "control", ev.LimitGranted("api", "a:1"))
    tale.work(4.0, lease("a:1", 3.1), ev.StepStarted(), done(took=0.5), ev.StepDone()).end(4.0, "a:1")
    assert parts(traced(tale)) == {"limit": 3000, "scheduling": 100, "queue": 400, "run": 500}


def test_limit_is_granted_anew_after_a_wait() -> None:
    held, again = lease("a:1", 1.1), lease("a:1", 8.0)
    waits = ev.TaskWaiting("sleep", 1, "sleep/1", until="later")
    tale = Tale().begin("a").at(1.0, "control", ev.LimitGranted("api", "a:1"))
    tale.at(2.0, "waiting", ev.StepStarted(), waits, lease=held).at(5.0, "scheduler", ev.TaskResumed("a:1", "sleep/1"))
    tale.at(7.0, "control", ev.LimitGranted("api", "a:1"))
    tale.work(9.0, again, ev.StepStarted(), done("sleep"), ev.StepDone()).end(9.0, "a:1")
    assert parts(traced(tale)) == {"limit": 3000, "scheduling": 1100, "queue": 1900, "waiting": 3000}


def test_place_of_the_execution_is_waited_for_by_all_its_runs() -> None:
    tale = Tale().begin("a").at(3.0, "control", ev.LimitGranted("tenant"))
    tale.work(4.0, lease("a:1", 3.0), ev.StepStarted(), done(took=1.0), ev.StepDone()).end(4.0, "a:1")
    assert parts(traced(tale)) == {"limit": 3000, "run": 1000}


def test_run_that_still_waits_for_its_place_is_not_in_the_queue() -> None:
    tale = Tale().begin("a")
    tale.entries = change(tale.entries, ev.StepScheduled, limited=True)
    assert parts(traced(tale, now=60.0)) == {"limit": 60_000}
    gated = Tale().begin("a")
    gated.entries = change(gated.entries, ev.PlaybookStarted, limit=ev.Limited("tenant", 1))
    assert parts(traced(gated, now=60.0)) == {"limit": 60_000}


def test_pause_of_the_execution_is_not_the_routers_time() -> None:
    tale = Tale().begin("a").at(1.0, "router", ev.PlaybookPaused())
    tale.work(2.0, lease("a:1", 0.0), ev.StepStarted(), done(took=2.0), ev.StepDone())
    tale.at(7.0, "router", ev.PlaybookResumed()).end(7.5, "a:1")
    assert parts(traced(tale)) == {"run": 2000, "paused": 5000, "routing": 500}


def test_path_goes_through_the_branch_that_a_join_waited_for() -> None:
    tale = Tale().begin("a", "b")
    tale.work(1.0, lease("a:1", 0.0), ev.StepStarted(), done(took=1.0), ev.StepDone())
    tale.work(5.0, lease("b:1", 0.0), ev.StepStarted(), done(took=5.0), ev.StepDone())
    tale.at(5.5, "router",
            ev.NextSelected("a:1", "a", "step.done", ("c",)), ev.TokenCreated("t3", "c", {}, "a:1"),
            ev.NextSelected("b:1", "b", "step.done", ("c",)), ev.TokenCreated("t4", "c", {}, "b:1"),
            entered("c", "t3", "t4"))
    tale.work(6.0, lease("c:1", 5.5), ev.StepStarted(), done(took=0.5), ev.StepDone()).end(6.0, "c:1")
    found = traced(tale)
    assert parts(found) == {"run": 5500, "routing": 500}
    assert {span.run_id for span in found.critical} == {"b:1", "c:1"}
    assert [run.cause for run in found.runs] == ["", "", "b:1"]


def test_path_of_a_loop_goes_from_one_iteration_to_the_one_it_made_room_for() -> None:
    tale = Tale().begin("a", loop=True)
    tale.at(0.1, "scheduler", ev.LoopStarted("a:1", "a", 3, [1, 2, 3], max_in_flight=2),
            ev.IterationStarted("a:1", 0, 2))
    held = [lease("a:1", 0.1, 0), lease("a:1", 0.1, 1), lease("a:1", 1.2, 2)]
    tale.work(1.1, held[0], ev.StepStarted(), done(took=1.0), ev.IterationDone())
    tale.at(1.2, "scheduler", ev.IterationStarted("a:1", 2))
    tale.work(2.1, held[1], ev.StepStarted(), done(took=2.0), ev.IterationDone())
    tale.work(4.2, held[2], ev.StepStarted(), done(took=3.0), ev.IterationDone())
    tale.at(4.3, "scheduler", ev.LoopDone("a:1", "a", count=3)).end(4.4, "a:1")
    found = traced(tale)
    assert parts(found) == {"scheduling": 300, "run": 4000, "routing": 100}
    assert [span.index for span in found.critical if span.part == "run"] == [0, 2]
    loop = told(found)["runs"][0]["loop"]
    assert (loop["iterations"], loop["p50_us"], loop["max_us"]) == (3, 2_000_000, 3_000_000)
    assert [each["index"] for each in loop["slowest"]] == [2, 1, 0]


def test_loop_that_one_worker_runs_goes_to_it_as_a_whole() -> None:
    """No record of the scheduler lets its iterations in: they begin when their worker begins them."""
    started = ev.LoopStarted("a:1", "a", 2, [1, 2], local=True), ev.IterationStarted("a:1", 0, 2)
    tale = Tale().begin("a", loop=True).at(0.1, "scheduler", *started)
    whole = lease("a:1", 0.2)
    tale.at(0.5, "iteration", ev.StepStarted(), lease=whole)
    for index, end in enumerate((1.5, 3.0)):
        held = lease("a:1", 0.2, index)
        tale.work(end, held, ev.StepStarted(), done(took=1.0), ev.IterationDone())
    tale.at(3.1, "scheduler", ev.LoopDone("a:1", "a", count=2)).end(3.2, "a:1")
    found = traced(tale)
    assert parts(found) == {"scheduling": 300, "queue": 300, "run": 2000, "reporting": 500, "routing": 100}
    assert [each.key.index for each in found.runs[0].iterations] == [0, 1]


def test_clocks_that_differ_never_make_a_part_negative() -> None:
    early = lease("a:1", 50.0)
    tale = Tale().begin("a").work(-3.0, early, ev.StepStarted(), done(took=0.1), ev.StepDone()).end(1.0, "a:1")
    assert parts(traced(tale)) == {"routing": 1000}
    late = Tale().begin("a").work(9.0, lease("a:1", 0.5), ev.StepStarted(), done(took=0.1), ev.StepDone())
    assert sum(parts(traced(late.end(1.0, "a:1"))).values()) == 1000


def test_execution_that_goes_on_is_shown_up_to_now() -> None:
    found = traced(Tale().begin("a"), now=60.0)
    assert (found.status, parts(found)) == ("running", {"queue": 60_000})
    held = lease("a:1", 1.0)
    found = traced(Tale().begin("a").work(2.0, held, ev.StepStarted(), ev.TaskStarted("work")), now=60.0)
    assert parts(found) == {"scheduling": 1000, "queue": 1000, "run": 58_000}
    assert found.runs[0].status == "running"


def test_history_that_does_not_fit_together_is_one_clear_error() -> None:
    tale = Tale().begin("a")
    seq, record = tale.entries[0]
    broken = Record(record.execution_id, record.writer, 1, "yesterday", record.events)
    with pytest.raises(Corrupt, match=r"the history of .* does not fit together: ValueError"):
        trace(EXECUTION, [(seq, broken)], T0)


def test_ranks() -> None:
    assert [rank([], 0.5), rank([7], 0.95), rank(list(range(1, 101)), 0.95), rank([1, 2, 3], 0.5)] == [0, 7, 95, 2]


# -- whatever happens ------------------------------------------------------------------------


@cache
def good_days() -> dict[str, list[tuple[int, Record]]]:
    return read_histories(live_in_peace(*(book.name for book in BOOKS)))


@pytest.mark.parametrize("place", range(len(BOOKS)), ids=[book.name for book in BOOKS])
def test_parts_add_up_for_every_playbook_and_every_beginning_of_it(place: int) -> None:
    entries = good_days()[f"e{place}"]
    now = 1.0 + max(seconds(record.ts) for _, record in entries)
    for length in range(1, len(entries) + 1):
        assert_exact(trace("x", entries[:length], now))


@pytest.mark.parametrize("seed", [3, 11])
def test_parts_add_up_whatever_goes_wrong(seed: int) -> None:
    with quiet():
        world = live(seed)
    for execution_id, entries in read_histories(world).items():
        found = trace(execution_id, entries, 0.0)
        assert_exact(found)
        assert set(found.work()) == set(PARTS)
