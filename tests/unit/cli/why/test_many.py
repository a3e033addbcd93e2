"""What many executions wait for: which reason counts, what stands still, what belongs together."""

from datetime import UTC, datetime, timedelta

from services.cli.why import many
from shared.answers.why.facts import Answer, Kind, Reason

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat()


def answer(name: str, *reasons: tuple[str, Kind, float]) -> Answer:
    return Answer(name, "running", tuple(Reason(cause, kind, cause, since=ago(s)) for cause, kind, s in reasons),
                  started=ago(900))


def stands(*reasons: tuple[str, Kind, float]) -> many.Standing:
    found = many.standing(answer("e", *reasons))
    assert found is not None
    return found


def is_still(*reasons: tuple[str, Kind, float]) -> bool:
    return many.is_still(stands(*reasons), NOW, 60)


def test_what_blocks_counts_before_what_runs_and_what_someone_must_do_before_the_rest() -> None:
    assert stands(("running", "running", 5), ("backoff", "blocked", 9)).reason.cause == "backoff"
    assert stands(("backoff", "blocked", 9), ("wait.signal", "blocked", 1)).reason.cause == "wait.signal"
    assert stands(("wait.signal", "blocked", 1), ("log.corrupt", "blocked", 1)).reason.cause == "log.corrupt"


def test_waits_for_different_signals_are_different_causes() -> None:
    """Its text and its remedy name one signal."""
    names = {"a": "go", "b": "done", "c": "go"}
    found = [many.standing(Answer(each, "running", (
        Reason("wait.signal", "blocked", f"waits for {name}", since=ago(9), values={"signal": name}),)))
        for each, name in names.items()]
    groups = many.grouped(one for one in found if one is not None)
    told = [(group.cause, group.first.reason.text, [one.answer.execution_id for one in group.standing])
            for group in groups]
    assert told == [("wait.signal", "waits for go", ["a", "c"]), ("wait.signal", "waits for done", ["b"])]


def test_what_is_over_stands_nowhere() -> None:
    assert many.standing(answer("e", ("over", "over", 1))) is None
    assert many.standing(Answer("e", "running")) is None


def test_it_stands_still_when_only_someone_moves_it_or_nothing_has_for_a_time() -> None:
    assert is_still(("wait.signal", "blocked", 1))
    assert not is_still(("backoff", "blocked", 30))
    assert is_still(("backoff", "blocked", 61))
    assert is_still(("running", "running", 300)), "a call that hangs"
    assert not is_still(("loop.window", "blocked", 300), ("running", "running", 2)), "a loop that goes on"


def test_the_same_causes_stand_together_the_oldest_first() -> None:
    waiting = [("a", 10), ("b", 500), ("c", 50)]
    found = [many.standing(answer(name, ("backoff", "blocked", s))) for name, s in waiting]
    found += [many.standing(answer("d", ("wait.signal", "blocked", 1)))]
    groups = many.grouped([each for each in found if each is not None])
    assert [(group.cause, [one.answer.execution_id for one in group.standing]) for group in groups] == [
        ("wait.signal", ["d"]), ("backoff", ["b", "c", "a"])]
