"""Workers that go on with a run which another one has claimed: what is found, and what is not their fault."""

import msgspec
import pytest
from msgspec.structs import replace

from shared.answers.history.history import Violation
from shared.answers.verify.fence import KNOWS_S, check_fence
from shared.answers.verify.reports import history_of
from shared.events import model as ev
from shared.events.record import Lease
from tests.unit.answers.tale import EXECUTION, Tale, done, lease

OLD, NEW = lease("fetch:1", 0, delivery=1), lease("fetch:1", 0, delivery=2)
CLAIMED = 15.0


def begun(task: str = "work") -> ev.TaskStarted:
    return ev.TaskStarted(task)


def lost(old: Lease = OLD, new: Lease = NEW) -> Tale:
    """The old lease is in its first call when the run is claimed."""
    tale = Tale().begin("fetch").work(1, old, ev.StepStarted()).work(1.05, old, begun("one"))
    return tale.work(CLAIMED, new, ev.StepStarted())


def found(tale: Tale) -> list[Violation]:
    return list(check_fence(history_of(EXECUTION, tale.entries)))


def rules(tale: Tale) -> list[str]:
    return [violation.rule for violation in found(tale)]


def test_one_lease_after_the_other_is_how_it_should_be() -> None:
    tale = lost().work(16, NEW, begun("one")).work(17, NEW, done("one", 1.0), begun("two"))
    assert found(tale) == []


@pytest.mark.parametrize("late_s", [0.5, 60.0])
def test_the_end_of_the_call_in_flight_is_a_last_word_however_late(late_s: float) -> None:
    assert found(lost().work(CLAIMED + late_s, OLD, done("one", late_s + 14))) == []


def test_a_call_that_a_worker_was_about_to_make_when_it_was_stopped_is_not_its_fault() -> None:
    """Between its last look and the call it cannot know: one call, in the first record that comes after the claim."""
    tale = lost().work(30, OLD, begun("two")).work(31, OLD, done("two", 1.0))
    assert found(tale) == []


def test_a_call_begun_when_the_worker_could_know_is_found_with_its_records() -> None:
    tale = lost().work(18, OLD, done("one", 17.0)).work(18.2, OLD, begun("two"))
    (violation,) = found(tale)
    assert (violation.rule, violation.seq) == ("fence", tale.entries[-1][0])
    assert "w1" in violation.message
    assert "two" in violation.message
    assert "3.200 s after the claim" in violation.message
    claim, call = violation.records
    assert (claim.seq, claim.worker, claim.epoch) == (4, "w2", NEW.epoch)
    assert (call.seq, call.worker, call.epoch, call.writer) == (6, "w1", OLD.epoch, "worker")
    assert call.ts == tale.entries[-1][1].ts
    assert "@6" in str(call)


@pytest.mark.parametrize(("after_s", "expected"), [(KNOWS_S - 0.1, []), (KNOWS_S + 0.1, ["fence"])])
def test_a_worker_has_some_time_to_hear_of_a_claim(after_s: float, expected: list[str]) -> None:
    at = CLAIMED + after_s
    assert rules(lost().work(at, OLD, done("one", 14.0)).work(at, OLD, begun("two"))) == expected


@pytest.mark.parametrize(("took_s", "expected"), [(1.5, []), (0.1, ["fence"])])
def test_a_call_whose_end_is_in_the_same_record_began_as_long_ago_as_it_took(
    took_s: float, expected: list[str]
) -> None:
    tale = lost().work(15.5, OLD, done("one", 14.0)).work(18, OLD, begun("two"), done("two", took_s))
    assert rules(tale) == expected


def test_a_start_that_was_written_late_began_when_its_end_says() -> None:
    """A worker stopped between the call and the record that says so."""
    tale = lost().work(15.5, OLD, done("one", 14.0)).work(30, OLD, begun("two")).work(31, OLD, done("two", 15.4))
    assert found(tale) == []


def test_calls_of_one_record_are_laid_out_backwards() -> None:
    pages = [each for name in ("two", "three") for each in (begun(name), done(name, 1.0))]
    tale = lost().work(15.5, OLD, done("one", 14.0))
    assert rules(Tale.work(tale, CLAIMED + KNOWS_S + 1.9, OLD, *pages)) == ["fence"]
    assert "(three)" in found(tale)[0].message


def test_all_that_a_worker_begins_too_late_is_one_finding() -> None:
    tale = lost()
    for k in range(10):
        tale.work(20 + k, OLD, done("one", 0.5)).work(20.2 + k, OLD, begun(f"t{k}"))
    (violation,) = found(tale)
    assert violation.seq == 6
    assert len(violation.records) == 7


# -- two at the same time --------------------------------------------------------------------


def both(other_ends: float) -> Tale:
    """The holder's call ends at this time; the one that lost the run begins another at 18."""
    tale = lost().work(15.1, NEW, begun("one")).work(15.5, OLD, done("one", 14.0))
    if other_ends < 18:
        tale.work(other_ends, NEW, done("one", other_ends - 15.1))
    tale.work(18.05, OLD, begun("one"))
    tale.work(19, OLD, done("one", 1.0))
    return tale if other_ends < 18 else tale.work(other_ends, NEW, done("one", other_ends - 15.1))


def test_two_workers_in_the_same_call_are_found() -> None:
    fence, overlap = found(both(18.5))
    assert (fence.rule, overlap.rule) == ("fence", "overlap")
    assert "both in the same call" in overlap.message
    assert {shown.worker for shown in overlap.records} == {"w1", "w2"}
    assert overlap.seq in {shown.seq for shown in overlap.records}


def test_a_call_that_was_over_is_not_at_the_same_time() -> None:
    assert rules(both(17.5)) == ["fence"]


def test_a_call_that_never_ended_lasts() -> None:
    assert rules(lost().work(15.1, NEW, begun("one")).work(15.5, OLD, done("one", 14.0))
                 .work(30, OLD, begun("two"))) == ["fence", "overlap"]


# -- loops -----------------------------------------------------------------------------------


def local(index: int, which: Lease) -> Lease:
    return replace(which, index=index)


def test_whoever_claims_a_local_loop_claims_its_iterations() -> None:
    started = ev.LoopStarted("fetch:1", "fetch", 2, [1, 2], local=True), ev.IterationStarted("fetch:1", 0, 2)
    tale = Tale().begin("fetch", loop=True).at(0.5, "scheduler", *started)
    tale.at(1, "iteration", ev.StepStarted(), lease=OLD)
    tale.work(1.1, local(0, OLD), ev.StepStarted(), begun("a")).at(CLAIMED, "iteration", ev.StepStarted(), lease=NEW)
    tale.work(16, local(0, OLD), done("a", 14.0))
    assert found(tale) == []
    assert rules(tale.work(20, local(0, OLD), begun("b"))) == ["fence"]


def test_iterations_with_leases_of_their_own_are_apart() -> None:
    started = ev.LoopStarted("fetch:1", "fetch", 2, [1, 2]), ev.IterationStarted("fetch:1", 0, 2)
    tale = Tale().begin("fetch", loop=True).at(0.5, "scheduler", *started)
    for index in (0, 1):
        tale.work(1, local(index, OLD), ev.StepStarted(), begun("a"))
    tale.work(CLAIMED, local(0, NEW), ev.StepStarted())
    for at in (20, 21):
        tale.work(at, local(1, OLD), done("a", 1.0), begun("b"))
    assert found(tale) == []


def test_a_record_of_no_time_is_left_to_its_rule() -> None:
    tale = lost().work(18, OLD, done("one", 17.0)).work(18.2, OLD, begun("two"))
    seq, record = tale.entries[-1]
    tale.entries[-1] = (seq, replace(record, ts="yesterday"))
    assert found(tale) == []


def test_what_was_found_reads_as_json() -> None:
    shown = msgspec.to_builtins(found(both(18.5))[1])
    assert set(shown) == {"rule", "message", "seq", "records"}
    assert set(shown["records"][0]) == {"seq", "writer", "ts", "says", "worker", "epoch"}
