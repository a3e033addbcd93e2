"""An interpreter and a machine take turns: answers and failures arrive where they were asked for."""

import pytest

from shared.engine.pipeline import effects as ef
from shared.engine.pipeline.driver import Driver


def test_each_effect_gets_its_answer_and_the_end_is_kept() -> None:
    def machine() -> ef.Steps[float]:
        began: float = yield ef.Now()
        ended: float = yield ef.Now()
        return ended - began

    times = iter((1.0, 3.5))
    with Driver(machine()) as driver:
        for effect in driver:
            assert effect == ef.Now()
            driver.answer = next(times)
    assert driver.ended == 2.5


def test_a_machine_that_asks_for_nothing_ends_at_once() -> None:
    def machine() -> ef.Steps[str]:
        yield from ()
        return "done"

    with Driver(machine()) as driver:
        assert list(driver) == []
    assert driver.ended == "done"


def test_a_failure_is_raised_where_it_was_asked_for_and_only_once() -> None:
    def machine() -> ef.Steps[str]:
        try:
            yield ef.Flush()
        except ValueError as error:
            answer: str = yield ef.Now()
            return f"{error}, then {answer}"
        return "no failure"

    with Driver(machine()) as driver:
        for effect in driver:
            if effect == ef.Flush():
                driver.fail(ValueError("lost"))
            else:
                driver.answer = "an answer"
    assert driver.ended == "lost, then an answer"


def test_a_failure_that_the_machine_does_not_catch_ends_it() -> None:
    def machine() -> ef.Steps[None]:
        yield ef.Flush()

    with pytest.raises(ValueError, match="lost"), Driver(machine()) as driver:  # noqa: PT012 - the loop is the subject
        for _ in driver:
            driver.fail(ValueError("lost"))


def test_whoever_leaves_early_leaves_the_machine_closed() -> None:
    closed = []

    def machine() -> ef.Steps[None]:
        try:
            yield ef.Flush()
        finally:
            closed.append(True)

    with Driver(machine()) as driver:
        for _ in driver:
            break
    assert closed
