"""Fourteen ways to corrupt a history by hand, each found by its rule; and chance finds no way to break the checker."""

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec.structs import replace

from shared.answers.verify.verify import Rule, verify
from shared.errors import Corrupt
from shared.events import model as ev
from shared.events.outcome import Outcome, Result, mark
from shared.events.record import Kept, Record, decode, encode, subject_of
from shared.events.stamp import seconds, stamp
from tests.sim.checks import PLANS
from tests.unit.answers.histories import (
    CHAIN,
    FAN,
    PAGES,
    PARALLEL,
    Entries,
    at,
    change,
    check,
    good_day,
    history,
    later,
    rewrite,
)


class Corruption(NamedTuple):
    execution_id: str
    make: Callable[[Entries], Entries]
    rule: Rule
    says: str


def without(entries: Entries, place: int) -> Entries:
    return [entry for k, entry in enumerate(entries) if k != place]


def dropped_record(entries: Entries) -> Entries:
    return without(entries, at(entries, ev.NextSelected))


def duplicated_decision(entries: Entries) -> Entries:
    return later(entries, entries[at(entries, ev.NextSelected)][1])


def token_consumed_twice(entries: Entries) -> Entries:
    first = entries[at(entries, ev.StepScheduled)][1]
    taken = next(event for event in first.events if isinstance(event, ev.StepScheduled)).tokens
    return change(entries, ev.StepScheduled, 1, tokens=taken)


def step_without_its_token(entries: Entries) -> Entries:
    return change(entries, ev.StepScheduled, 1, tokens=())


def run_ended_twice(entries: Entries) -> Entries:
    place = at(entries, ev.NextSelected)
    ended = next(event for event in entries[place][1].events if isinstance(event, ev.NextSelected))
    return rewrite(entries, place, lambda record: replace(record, events=(ended, *record.events)))


def changed_ctx_patch(entries: Entries) -> Entries:
    return change(entries, ev.CtxPatched, patch={"seen": {"$append": "somebody"}})


def loop_done_early(entries: Entries) -> Entries:
    """The last report of an iteration comes after the decision that it is over."""
    done, last = at(entries, ev.LoopDone), at(entries, ev.IterationDone, -1)
    moved = [*without(entries, last)]
    late = (entries[-1][0] + 1, entries[last][1])
    assert last < done
    return [*moved, late]


def iteration_missing(entries: Entries) -> Entries:
    return change(entries, ev.LoopDone, count=2)


def swapped_arc(entries: Entries) -> Entries:
    """Consistent in itself: the arc, its token and the run that follows are those of another step."""
    text = msgspec.json.encode([record for _, record in entries]).decode()
    swapped = text.replace('"arcs":["middle"]', '"arcs":["last"]', 1)
    records = msgspec.json.decode(swapped, type=list[Record])
    made = [(seq, record) for (seq, _), record in zip(entries, records, strict=True)]
    return change(made, ev.TokenCreated, 1, step="last")


def fenced_lease_counted(entries: Entries) -> Entries:
    """Another worker had claimed the run before the report that the router went by."""
    place = at(entries, ev.StepDone)
    seq, report = entries[place]
    assert report.lease is not None
    higher = (report.lease.epoch[0], report.lease.epoch[1] + 1)
    claim = replace(report, n=1, events=(ev.StepStarted(),), lease=replace(report.lease, epoch=higher, worker="other"))
    moved = [(number + 1, replace(record, as_of=record.as_of + (record.as_of >= seq)))
             for number, record in entries[place:]]
    return [*entries[:place], (seq, claim), *moved]


def finished_task_again(entries: Entries) -> Entries:
    place = at(entries, ev.TaskDone, 1)
    done = next(event for event in entries[place][1].events if isinstance(event, ev.TaskDone))
    return rewrite(entries, place, lambda record: replace(record, events=(*record.events, done)))


def another_result(entries: Entries) -> Entries:
    return change(entries, ev.PlaybookProcessed, result=Result("better"))


def superseded_call(entries: Entries) -> Entries:
    """Whoever had the run before comes back after its end, and begins a call in its second record."""
    return later(later(entries, zombie(entries, 10, 1, ev.StepStarted())), zombie(entries, 20, 2, ev.TaskStarted("x")))


def zombie(entries: Entries, later_s: float, n: int, event: ev.Event) -> Record:
    """A record of a lease before the first one of the history."""
    first = entries[at(entries, ev.StepStarted)][1]
    assert first.lease is not None
    lower = replace(first.lease, epoch=(first.lease.epoch[0] - 1, 1), worker="zombie")
    ts = stamp(seconds(first.ts) + later_s)
    return replace(first, n=n, ts=ts, events=(event,), lease=lower)


def another_calls_answer(entries: Entries) -> Entries:
    place = at(entries, ev.TaskDone)
    done = next(event for event in entries[place][1].events if isinstance(event, ev.TaskDone))
    return change(entries, ev.TaskDone, outcome=replace(done.outcome, call=mark("another")))


CORRUPTED = {
    "a dropped record": Corruption(CHAIN, dropped_record, "numbering", "follows"),
    "a duplicated decision": Corruption(CHAIN, duplicated_decision, "numbering", "follows"),
    "a token consumed twice": Corruption(CHAIN, token_consumed_twice, "token", "do not wait there"),
    "a step without its token": Corruption(CHAIN, step_without_its_token, "token", "takes tokens ()"),
    "a run ended twice": Corruption(CHAIN, run_ended_twice, "run", "is not under way"),
    "a changed ctx patch": Corruption(FAN, changed_ctx_patch, "ctx", "that its end does not have"),
    "a loop done before its last iteration": Corruption(PARALLEL, loop_done_early, "loop", "is done before"),
    "an iteration missing": Corruption(PARALLEL, iteration_missing, "loop", "another number than it started"),
    "a swapped arc": Corruption(CHAIN, swapped_arc, "decision", "the log says next.selected"),
    "a record of a fenced lease counted": Corruption(CHAIN, fenced_lease_counted, "run", "nobody reported its end"),
    "a task repeated after it finished": Corruption(PAGES, finished_task_again, "pipeline", "at hand is"),
    "a call of a run that another worker has": Corruption(CHAIN, superseded_call, "fence", "had superseded"),
    "an answer to another call": Corruption(PAGES, another_calls_answer, "call", "the answer to another call"),
    "an end with another result": Corruption(CHAIN, another_result, "decision", "the log says playbook.processed"),
}


def test_there_are_fourteen() -> None:
    assert len(CORRUPTED) == 14


NOT_CORRUPTED = {
    "last words of a worker that lost its run": lambda entries: later(
        entries, zombie(entries, 10, 1, ev.StepStarted())),
    "a second word within the time that it had": lambda entries: later(
        later(entries, zombie(entries, 0.1, 1, ev.StepStarted())), zombie(entries, 1.0, 2, ev.TaskStarted("x"))),
    "an answer that names its call": lambda entries: change(
        entries, ev.TaskDone, outcome=replace(outcome_of(entries), call=mark(f"{CHAIN}/{first_call(entries)}"))),
}


def outcome_of(entries: Entries) -> Outcome:
    record = entries[at(entries, ev.TaskDone)][1]
    return next(event for event in record.events if isinstance(event, ev.TaskDone)).outcome


def first_call(entries: Entries) -> str:
    record = entries[at(entries, ev.TaskDone)][1]
    done = next(event for event in record.events if isinstance(event, ev.TaskDone))
    assert record.lease is not None
    return f"{record.lease.run_id}/{done.task}/1"


@pytest.mark.parametrize("name", NOT_CORRUPTED)
def test_what_nearly_is_a_corruption_is_none(name: str) -> None:
    told = NOT_CORRUPTED[name](history(CHAIN))
    assert told != history(CHAIN)
    assert check(CHAIN, told) == []


@pytest.mark.parametrize("name", CORRUPTED)
def test_corrupted_history_is_found_by_its_rule(name: str) -> None:
    execution_id, make, rule, says = CORRUPTED[name]
    assert check(execution_id, history(execution_id)) == []
    corrupted = make(history(execution_id))
    found = [violation for violation in check(execution_id, corrupted) if violation.rule == rule]
    assert any(says in violation.message for violation in found), check(execution_id, corrupted)
    assert {violation.seq for violation in found} <= {seq for seq, _ in corrupted}


@pytest.mark.parametrize("name", CORRUPTED)
def test_first_violation_is_not_before_what_was_changed(name: str) -> None:
    """What stands before the change is still right, so the first violation leads to the place."""
    execution_id, make, _, _ = CORRUPTED[name]
    clean, corrupted = history(execution_id), make(history(execution_id))
    changed = next(seq for (seq, record), other in zip([*clean, (10**9, clean[0][1])], [*corrupted, None], strict=False)
                   if other != (seq, record))
    first = check(execution_id, corrupted)[0]
    assert first.seq >= min(changed, corrupted[-1][0])


# -- by chance -------------------------------------------------------------------------------


def _mutated(value: Any, rng: random.Random) -> Any:
    """JSON with something in it changed to something else, mostly of its kind."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        return {**value, key: _mutated(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        place = rng.randrange(len(value))
        kept = [*value[:place], *value[place + 1 :]]
        return kept if rng.random() < 0.2 else [*value[:place], _mutated(value[place], rng), *value[place + 1 :]]
    if isinstance(value, str) and rng.random() < 0.8:
        return rng.choice(["", "x", "start", "start:1", "step.done", "t1", value + "x"])
    if isinstance(value, int) and rng.random() < 0.8:
        return value + rng.choice([-1, 1, 100])
    return rng.choice([None, 0, -1, 7, "x", [], {}, True, [value], {"kind": value}])


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_changed_the_checker_answers(seed: int) -> None:
    """No mutation that still reads as records makes it raise; most are violations."""
    rng = random.Random(seed)
    histories, values = good_day()
    told = read = 0
    for _ in range(300):
        execution_id = rng.choice(list(histories))
        entries = list(histories[execution_id])
        place = rng.randrange(len(entries))
        data = msgspec.json.encode(_mutated(msgspec.json.decode(encode(entries[place][1])), rng))
        try:
            entries[place] = (entries[place][0], decode(Kept(subject_of(entries[place][1], 1), data), 1))
        except Corrupt:
            continue
        read += 1
        told += bool(verify(execution_id, entries, _plan, values))
    assert read > 50
    assert told > read * 0.5


def _plan(digest: str) -> Any:
    return PLANS.get(digest) or next(iter(PLANS.values()))
