"""Looks at executions that stand still: twice at least, as long as it takes, and no longer."""

from collections.abc import Callable

from services.cli.verify.unfinished import LOOK_S, MAX_LOOKS, Ask, Watch
from shared.answers.why.facts import Answer, Reason
from shared.answers.why.pools import MENDED_S
from shared.answers.why.stuck import STILL_S

LOST = Reason("command.lost", "blocked", "lost", "start", "start:1", mended_s=MENDED_S)
ASIDE = Reason("log.corrupt", "blocked", "set aside")
RUNS = Reason("running", "running", "it runs")


def answer(*reasons: Reason, as_of: int = 3, execution_id: str = "x1") -> Answer:
    return Answer(execution_id, "running", reasons, as_of=as_of)


class Looks:
    """What is told at each look, and how much time the looks take."""

    def __init__(self, tell: Callable[[int, str], Answer | None]) -> None:
        self.looks, self.now, self.asked = 0, 0.0, list[str]()
        self._tell = tell
        self.watch = Watch(self._look, lambda: self.now, self._sleep)

    def _look(self) -> Ask:
        self.looks += 1

        async def ask(execution_id: str) -> Answer | None:
            self.asked.append(execution_id)
            return self._tell(self.looks, execution_id)

        return ask

    async def _sleep(self, seconds: float) -> None:
        self.now += seconds


async def test_what_moves_is_looked_at_once() -> None:
    looks = Looks(lambda _, name: answer(RUNS, execution_id=name))
    assert await looks.watch.stuck(["x1", "x2"]) == {}
    assert (looks.asked, looks.now) == (["x1", "x2"], 0.0)


async def test_what_nobody_knows_any_more_is_not_stuck() -> None:
    assert await Looks(lambda *_: None).watch.stuck(["x1"]) == {}


async def test_a_reason_that_stays_is_found_after_its_time() -> None:
    for reason, patience in ((ASIDE, STILL_S), (LOST, MENDED_S)):
        looks = Looks(lambda _, name, reason=reason: answer(reason, execution_id=name))  # type: ignore[misc]
        (violation,) = (await looks.watch.stuck(["x1"]))["x1"]
        assert (violation.rule, violation.seq) == ("stuck", 3)
        assert patience <= looks.now < patience + 2 * LOOK_S


async def test_a_reason_that_goes_away_is_none() -> None:
    looks = Looks(lambda number, _: answer(LOST if number < 8 else RUNS))
    assert await looks.watch.stuck(["x1"]) == {}
    assert looks.looks == 8


async def test_an_execution_that_goes_on_is_in_no_doubt() -> None:
    looks = Looks(lambda number, _: answer(LOST, as_of=number))
    assert await looks.watch.stuck(["x1"]) == {}
    assert looks.looks == 2


async def test_only_what_is_in_doubt_is_looked_at_again() -> None:
    looks = Looks(lambda _, name: answer(ASIDE if name == "x2" else RUNS, execution_id=name))
    assert list(await looks.watch.stuck(["x1", "x2", "x3"])) == ["x2"]
    assert looks.asked.count("x1") == 1


async def test_looks_are_bounded_when_another_reason_comes_each_time() -> None:
    looks = Looks(lambda number, _: answer(Reason("log.corrupt", "blocked", "…", run_id=f"r:{number}")))
    assert await looks.watch.stuck(["x1"]) == {}
    assert looks.looks == MAX_LOOKS
    assert MAX_LOOKS * LOOK_S > MENDED_S
