"""Which workers are taken for dead, and what is known of what they held."""

from msgspec.structs import replace

from services.scheduler.liveness import SILENT_S, Gone, Lives
from shared.events.beat import Beat

RUN, OTHER = ("x", "r1", -1), ("x", "r2", 3)
BEAT = Beat("w1", "default", 8, [RUN, OTHER], started=100.0, seqs=[7, 9])
HELD = {RUN: 7, OTHER: 9}


def test_a_worker_that_ended_leaves_what_its_last_beat_held() -> None:
    lives = Lives()
    assert lives.heard("default.w1", replace(BEAT, held=[], seqs=[])) is None
    assert lives.heard("default.w1", BEAT) is None
    assert lives.ended("default.w1") == Gone("default.w1", "default", "ended", HELD)
    assert lives.ended("default.w1") is None


def test_a_worker_that_stops_in_order_leaves_nothing() -> None:
    lives = Lives()
    lives.heard("default.w1", BEAT)
    lives.heard("default.w1", replace(BEAT, held=[], seqs=[], draining=True))
    assert lives.ended("default.w1") is None


def test_silence_is_counted_over_the_time_in_which_one_listened() -> None:
    lives = Lives()
    lives.heard("default.w1", BEAT)
    assert list(lives.listened(SILENT_S - 0.1)) == []
    lives.heard("default.w1", BEAT)
    assert list(lives.listened(SILENT_S - 0.1)) == []
    assert list(lives.listened(0.0)) == []
    assert list(lives.listened(0.2)) == [Gone("default.w1", "default", "silent", HELD)]
    assert list(lives.listened(SILENT_S)) == []


def test_the_next_life_under_a_name_ends_the_one_before() -> None:
    lives = Lives()
    lives.heard("default.w1", BEAT)
    later = replace(BEAT, held=[], seqs=[], started=200.0)
    assert lives.heard("default.w1", later) == Gone("default.w1", "default", "started again", HELD)


def test_two_workers_under_one_name_do_not_take_each_other_for_dead_for_ever() -> None:
    lives = Lives()
    second = replace(BEAT, started=200.0)
    lives.heard("default.w1", BEAT)
    assert lives.heard("default.w1", second) is not None
    assert [lives.heard("default.w1", each) for each in (BEAT, second, BEAT, second)] == [None] * 4


def test_what_another_live_worker_holds_is_known() -> None:
    lives = Lives()
    lives.heard("default.w1", BEAT)
    lives.heard("default.w2", replace(BEAT, worker="w2", held=[OTHER], seqs=[9]))
    lives.ended("default.w1")
    assert (lives.holds("default", RUN), lives.holds("default", OTHER)) == (False, True)


def test_a_beat_without_sequences_leaves_nothing_to_issue() -> None:
    lives = Lives()
    lives.heard("default.w1", replace(BEAT, seqs=[]))
    assert lives.ended("default.w1") is None
