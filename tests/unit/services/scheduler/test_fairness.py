"""Whose command goes to the pool next."""

import random
from collections import Counter

import pytest

from services.scheduler.fairness import Fair
from shared.events.beat import Key


def key(execution: str, n: int) -> Key:
    return (execution, "step:1", n)


def offer(fair: Fair[str], execution: str, count: int, priority: int = 5, start: int = 0) -> None:
    for n in range(start, start + count):
        assert fair.offer(key(execution, n), f"{execution}{n}", priority)


def test_a_loop_alone_gets_all_the_room_and_its_first() -> None:
    fair = Fair[str]()
    offer(fair, "a", 10)
    assert list(fair.released(100, 3)) == ["a0", "a1", "a2", "a3"]
    assert fair.is_holding


def test_the_first_of_an_execution_goes_whatever_the_others_have() -> None:
    fair = Fair[str]()
    offer(fair, "a", 10)
    assert len(list(fair.released(100, 4))) == 5
    offer(fair, "b", 3)
    assert list(fair.released(100, 4)) == ["b0"]


def test_room_is_shared_evenly() -> None:
    fair = Fair[str]()
    for execution in "abc":
        offer(fair, execution, 20)
    out = list(fair.released(100, 12))
    assert Counter(item[0] for item in out) == {"a": 5, "b": 5, "c": 5}


def test_who_has_the_fewest_gets_the_next_free_place() -> None:
    fair = Fair[str]()
    offer(fair, "a", 20)
    list(fair.released(100, 6))
    offer(fair, "b", 20)
    assert list(fair.released(100, 6)) == ["b0"]
    fair.free("a", "step:1", 0)
    assert list(fair.released(100, 6)) == ["b1"]


def test_a_higher_priority_goes_first() -> None:
    fair = Fair[str]()
    offer(fair, "low", 3, priority=1)
    offer(fair, "high", 3, priority=9)
    assert list(fair.released(100, 2)) == ["high0", "high1", "high2", "low0"]
    fair.free("high", "step:1", 0)
    offer(fair, "high", 1, priority=9, start=3)
    assert list(fair.released(100, 2)) == ["high3"]


def test_not_more_than_the_most_are_under_way() -> None:
    fair = Fair[str]()
    for n in range(10):
        offer(fair, f"e{n}", 1)
    assert len(list(fair.released(4, 100))) == 4
    fair.free("e0", "step:1", 0)
    assert len(list(fair.released(4, 100))) == 1


def test_what_is_there_is_not_taken_twice() -> None:
    fair = Fair[str]()
    offer(fair, "a", 2)
    assert not fair.offer(key("a", 1), "again", 5)
    assert list(fair.released(100, 0)) == ["a0"]
    assert fair.passes(key("a", 0), "", 100, 0)
    assert not fair.offer(key("a", 0), "again", 5)


@pytest.mark.parametrize(("run", "left"), [("step:1", 1), ("", 0)])
def test_the_end_of_a_run_or_of_an_execution_frees_all_of_it(run: str, left: int) -> None:
    fair = Fair[str]()
    offer(fair, "a", 5)
    fair.offer(("a", "other:1", -1), "other", 5)
    list(fair.released(100, 2))
    fair.free("a", run)
    assert len(list(fair.released(100, 100))) == left
    assert not fair.is_holding


def test_what_is_not_due_any_more_is_forgotten() -> None:
    fair = Fair[str]()
    offer(fair, "a", 6)
    list(fair.released(100, 1))
    fair.keep(lambda found: found[2] in (4, 5))
    assert list(fair.released(100, 1)) == ["a4", "a5"]


def root_of(found: Key) -> str:
    return "a" if found[0] in "ab" else found[0]


@pytest.mark.parametrize("seed", range(20))
def test_everything_offered_goes_out_once_and_the_bounds_hold(seed: int) -> None:
    rng = random.Random(seed)
    fair, offered, out = Fair[Key](), set[Key](), list[Key]()
    live = set[Key]()
    for n in range(400):
        match rng.randrange(3):
            case 0:
                found = (rng.choice("abcd"), "r", n)
                if fair.offer(found, found, rng.randrange(3), root_of(found)):
                    offered.add(found)
            case 1 if live:
                ended = rng.choice(sorted(live))
                live.discard(ended)
                fair.free(*ended)
        fresh = list(fair.released(12, 5))
        out += fresh
        live |= set(fresh)
        held = Counter(root_of(found) for found in live)
        assert len(live) <= 12
        assert sum(n - 1 for n in held.values()) <= 5
    while live:
        for ended in list(live):
            fair.free(*ended)
        live = set(fair.released(12, 5))
        out += live
    assert sorted(out) == sorted(offered)


@pytest.mark.parametrize("seed", range(40))
def test_what_passes_at_once_goes_when_it_would_be_released(seed: int) -> None:
    """Two that hear the same: one of them holds back whatever comes, and then looks what goes out."""
    rng = random.Random(seed)
    quick, slow = Fair[Key](), Fair[Key]()
    live, bounds = list[Key](), (12, 5)
    passed = 0
    for n in range(600):
        out = list[Key]()
        match rng.randrange(8):
            case 0 | 1 | 2:
                execution, priority = rng.choice("abcdef"), rng.randrange(3)
                for found in [(execution, f"r{n % 3}", 10 * n + i) for i in range(rng.choice((1, 1, 1, 7)))]:
                    slow.offer(found, found, priority, root_of(found))
                    if quick.passes(found, root_of(found), *bounds):
                        out.append(found)
                        passed += 1
                    else:
                        quick.offer(found, found, priority, root_of(found))
            case 3 | 4 | 5 if live:
                for ended in rng.sample(live, min(len(live), rng.choice((1, 1, 9)))):
                    quick.free(*ended)
                    slow.free(*ended)
            case 6:
                gone = rng.choice((("a",), ("b", "r1"), ("c", "r0"), ("d",)))
                quick.free(*gone)
                slow.free(*gone)
            case 7:
                bounds = rng.choice(((12, 5), (12, 5), (4, 2), (40, 20)))
                if rng.randrange(4) == 0:
                    due = set(rng.sample(live, len(live) // 2))
                    quick.keep(due.__contains__)
                    slow.keep(due.__contains__)
        out += quick.released(*bounds)
        assert out == list(slow.released(*bounds))
        assert (quick.held, quick.under_way, quick.turns) == (slow.held, slow.under_way, slow.turns)
        live = [found for found in [*live, *out] if quick.passes(found, "", 0, 0)]
    assert passed > 20


def test_a_family_shares_one_turn_however_many_it_is() -> None:
    fair = Fair[str]()
    for n in range(50):
        fair.offer(key(f"child{n}", 0), f"c{n}", 5, "root")
    assert len(list(fair.released(100, 4))) == 5
    offer(fair, "other", 1)
    assert list(fair.released(100, 4)) == ["other0"]


def test_room_is_shared_evenly_between_families_and_then_within_each() -> None:
    fair = Fair[str]()
    for n in range(10):
        for name in "ab":
            fair.offer(key(name, n), name, 5, "root")
        offer(fair, "other", 1, start=n)
    out = Counter(item[0] for item in fair.released(100, 6))
    assert out == {"a": 2, "b": 2, "o": 4}


def test_a_higher_priority_goes_first_within_a_family() -> None:
    fair = Fair[str]()
    fair.offer(key("low", 0), "low", 1, "root")
    fair.offer(key("high", 0), "high", 9, "root")
    assert list(fair.released(100, 0)) == ["high"]
    fair.free("high")
    assert list(fair.released(100, 0)) == ["low"]


def test_nothing_is_kept_of_families_that_are_over() -> None:
    fair = Fair[str]()
    for n in range(100):
        fair.offer(key(f"child{n}", 0), f"c{n}", 5, "root")
    for _ in range(100):
        list(fair.released(100, 3))
        for n in range(100):
            fair.free(f"child{n}")
    assert not fair._lanes
    assert not fair._families
    assert fair._under_way == fair._extra == 0
