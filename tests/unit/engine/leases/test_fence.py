"""The rule which records of workers count, clause by clause."""

from msgspec.structs import replace

from shared.engine.leases.fence import NOBODY, Counted, Fence, counts
from shared.events import model as ev
from shared.events.outcome import ok
from shared.events.record import Lease, Record, Writer
from shared.events.run_index import RUN, of_frame

AT = "2026-01-02T03:04:05.000000Z"
FIRST, SECOND = Lease("work:1", "work", (5, 1), "w1"), Lease("work:1", "work", (5, 2), "w2")
LATER = replace(SECOND, epoch=(6, 1), worker="w3")
BEGINS: tuple[ev.Event, ...] = (ev.StepStarted(), ev.TaskStarted("a"))
FINISHES: tuple[ev.Event, ...] = (ev.TaskDone("a", 1, ok(1), "continue"),)


def said(lease: Lease, n: int, *events: ev.Event, writer: Writer = "worker") -> Record:
    return Record("x1", "iteration" if lease.index != RUN else writer, n, AT, events, lease=lease)


def decided(*events: ev.Event, writer: Writer = "router") -> Record:
    return Record("x1", writer, 1, AT, events)


def fence(*, loop: bool = False, local: bool = False) -> Fence:
    found = Fence()
    assert found.takes(decided(ev.StepScheduled("work:1", "work", (), "d1", "default", loop)))
    if loop:
        started = ev.LoopStarted("work:1", "work", 2, [1, 2], local=local), ev.IterationStarted("work:1", 0, 2)
        assert found.takes(decided(*started, ev.FrameStarted("work:1", 0, 2), writer="scheduler"))
    return found


def test_what_does_not_fit_does_not_count() -> None:
    found = fence()
    assert not found.takes(said(replace(FIRST, run_id="other:1"), 1, *BEGINS))
    assert not found.takes(said(replace(FIRST, index=0), 1, *BEGINS))
    assert found.takes(said(FIRST, 1, *BEGINS))


def test_a_claim_ends_what_lower_epochs_can_say() -> None:
    found = fence()
    assert found.takes(said(FIRST, 1, *BEGINS))
    assert found.takes(said(SECOND, 1, ev.StepStarted()))
    assert not found.takes(said(FIRST, 3, *FINISHES))
    assert found.takes(said(LATER, 1, ev.StepStarted()))
    assert not found.takes(said(SECOND, 2, *FINISHES))


def test_a_record_counts_once_also_behind_later_ones() -> None:
    found, first = fence(), said(FIRST, 1, *BEGINS)
    assert found.takes(first)
    assert not found.takes(first)
    assert found.takes(said(FIRST, 3, *FINISHES))
    assert not found.takes(first)


def test_numbers_begin_anew_with_every_lease() -> None:
    found = fence()
    assert found.takes(said(FIRST, 1, *BEGINS))
    assert found.takes(said(FIRST, 3, *FINISHES))
    assert found.takes(said(SECOND, 1, ev.StepStarted()))


def test_nothing_counts_behind_the_end() -> None:
    found = fence()
    assert found.takes(said(FIRST, 1, *BEGINS, *FINISHES, ev.StepDone()))
    assert not found.takes(said(FIRST, 5, ev.StepFailed({"kind": "x"})))
    assert not found.takes(said(LATER, 1, *BEGINS))


def test_a_wait_and_a_release_end_the_lease_and_not_the_run() -> None:
    found = fence()
    wait = ev.TaskWaiting("a", 1, "a/1", until=AT)
    assert found.takes(said(FIRST, 1, wait, writer="waiting"))
    assert found.takes(decided(ev.TaskResumed("work:1", "a/1"), writer="scheduler"))
    assert found.takes(said(SECOND, 1, ev.StepStarted(), ev.LeaseReleased("going")))
    assert found.takes(said(LATER, 1, ev.StepStarted()))


def test_whoever_claims_a_local_loop_claims_its_iterations() -> None:
    found = fence(loop=True, local=True)
    assert found.takes(said(FIRST, 1, ev.StepStarted(), writer="iteration"))
    assert found.takes(said(replace(FIRST, index=0), 1, *BEGINS))
    assert found.takes(said(SECOND, 1, ev.StepStarted(), writer="iteration"))
    assert not found.takes(said(replace(FIRST, index=0), 3, *FINISHES))
    assert not found.takes(said(replace(FIRST, index=1), 1, *BEGINS))
    assert found.takes(said(replace(SECOND, index=0), 1, *BEGINS))


def test_iterations_and_frames_count_each_for_itself() -> None:
    found = fence(loop=True)
    assert found.takes(said(replace(LATER, index=0), 1, *BEGINS))
    assert found.takes(said(replace(FIRST, index=1), 1, *BEGINS))
    assert found.takes(said(replace(FIRST, index=of_frame(0)), 1, ev.StepStarted(), ev.FrameClaimed(1, [1])))
    assert not found.takes(said(replace(SECOND, index=of_frame(0)), 1, ev.StepStarted(), ev.FrameClaimed(1, [1])))


def test_a_closed_run_has_ended_with_its_iterations() -> None:
    found = fence(loop=True)
    found.close("work:1")
    assert not found.takes(said(replace(FIRST, index=0), 1, *BEGINS))


def test_a_claim_of_the_whole_raises_the_epoch_of_an_iteration() -> None:
    counted = Counted()
    assert counts(said(FIRST, 1, *BEGINS), NOBODY, 0)
    counted.claimed(SECOND.epoch)
    assert not counted.take(said(FIRST, 1, *BEGINS))
    assert counted.take(said(SECOND, 1, *BEGINS))
    counted.claimed(SECOND.epoch)
    assert not counted.take(said(SECOND, 1, *BEGINS))
