"""One family of fuzzers: cases made of a seed and a number, each held to a promise, for as long as it is given.

A case depends on nothing but its seed and its number, so one that breaks its promise can be had again alone.
"""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

SHOWN = 5
CI_SEED = 1
CI_S = 60.0
TRIES = 3        # a case is slow if it is so each time: other processes may hold the CPU
QUICK_S = 0.05   # what takes less may be cheap
ENDLESS_S = 60.0
MAX_SHOWN = 600  # characters of a case


class Seen(NamedTuple):
    """What became of a case. `units`: what it paid, where work is paid for."""

    kinds: Sequence[str]
    units: int = 0


class Fuzzer(NamedTuple):
    """`promise` holds a case to what it must be: anything raised is a broken one. `kinds` are those that cases must
    reach; a fuzzer that does not come to one of them tries less than it says. `most_s`: of CPU time, for one case;
    `most_ns`: for each unit it pays, where work is paid for."""

    name: str
    make: Callable[[random.Random], Any]
    promise: Callable[[Any], Seen]
    kinds: frozenset[str]
    most_s: float
    most_ns: float = 0.0
    show: Callable[[Any], str] = repr


class Cost(NamedTuple):
    seconds: float
    number: int
    units: int


class Report(NamedTuple):
    """`kinds` counts what cases became, `worst` are the slowest."""

    fuzzer: Fuzzer
    seed: int
    cases: int
    seconds: float
    kinds: Counter[str]
    worst: list[Cost]

    @property
    def missed(self) -> frozenset[str]:
        return self.fuzzer.kinds - self.kinds.keys()

    def __str__(self) -> str:
        rate = self.cases / max(self.seconds, 1e-9)
        lines = [f"{self.fuzzer.name}: {self.cases} cases in {self.seconds:.0f} s ({rate:.0f}/s), seed {self.seed}: "
                 "no promise broken"]
        if self.missed:
            lines.append(f"never reached: {', '.join(sorted(self.missed))}")
        lines += [f"{count:>10}  {kind}" for kind, count in self.kinds.most_common()]
        for each in self.worst:
            paid = f", {each.seconds * 1e9 / each.units:.0f} ns/unit" if each.units else ""
            case = " ".join(_text(self.fuzzer, made(self.fuzzer, self.seed, each.number), MAX_SHOWN // 4).split())
            lines.append(f"{each.seconds * 1e3:8.1f} ms{paid}, case {each.number}: {case}")
        return "\n".join(lines)


class Broken(AssertionError):
    """A promise that does not hold, and how to see it again."""


def made(fuzzer: Fuzzer, seed: int, number: int) -> Any:
    return fuzzer.make(random.Random(f"{seed}/{number}"))


def fuzz(fuzzer: Fuzzer, seed: int, seconds: float, shown: int = SHOWN) -> Report:
    """Cases of the seed from the first, for so many seconds."""
    began, kinds, worst, number = time.monotonic(), Counter[str](), list[Cost](), 0
    while (taken := time.monotonic() - began) < seconds:
        cost = one(fuzzer, seed, number, kinds)
        if len(worst) < shown or cost.seconds > worst[-1].seconds:
            worst = sorted([*worst, cost], reverse=True)[:shown]
        number += 1
    return Report(fuzzer, seed, number, taken, kinds, worst)


def one(fuzzer: Fuzzer, seed: int, number: int, kinds: Counter[str]) -> Cost:
    """Raises Broken."""
    case = made(fuzzer, seed, number)
    try:
        taken, seen = _held(fuzzer, case)
    except Exception as error:
        raise Broken(
            f"{fuzzer.name}: case {number} of seed {seed} breaks a promise: {type(error).__name__}: {error}\n"
            f"again: python -m tests.property.fuzz {fuzzer.name} --seed {seed} --case {number}\n{_text(fuzzer, case)}"
        ) from error
    kinds.update(seen.kinds)
    return Cost(taken, number, seen.units)


def _held(fuzzer: Fuzzer, case: Any) -> tuple[float, Seen]:
    taken = float("inf")
    for _ in range(TRIES):
        began = time.thread_time()
        with _ending():
            seen = fuzzer.promise(case)
        taken = min(taken, time.thread_time() - began)
        paid = max(QUICK_S, seen.units * fuzzer.most_ns / 1e9) if fuzzer.most_ns else fuzzer.most_s
        if taken <= min(fuzzer.most_s, paid):
            return taken, seen
    raise AssertionError(f"it takes {taken:.2f} s of CPU time for {seen.units} units")


@contextmanager
def _ending() -> Iterator[None]:
    """What does not end by itself is ended, so that its case can be told."""
    before = signal.signal(signal.SIGVTALRM, _endless)
    signal.setitimer(signal.ITIMER_VIRTUAL, ENDLESS_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


def _endless(_number: int, _frame: object) -> None:
    raise AssertionError(f"it does not end within {ENDLESS_S:g} s of CPU time")


def _text(fuzzer: Fuzzer, case: Any, most: int = MAX_SHOWN) -> str:
    text = fuzzer.show(case)
    return text if len(text) <= most else f"{text[:most]} … {len(text)} characters"


def in_ci(fuzzer: Fuzzer, seconds: float = CI_S) -> None:
    """A while of cases, always the same ones; as many as the machine gets through."""
    report = fuzz(fuzzer, CI_SEED, seconds)
    assert report.missed == frozenset(), report
