"""Budgets of templates: of one evaluation, and of all evaluations of one decision together.

Units are counted, never time: the same decision over the same values always ends the same way, so it can be made again
from the log. One unit is at most about 50 ns of work (`template_costs`), so a budget is about 50 ms.
"""

from collections.abc import Callable
from contextvars import ContextVar, Token
from functools import partial, wraps
from typing import ParamSpec, TypeVar

from shared.errors import OverLimit, Signal

MAX_WORK = 1_000_000           # units of one evaluation
MAX_DECISION_WORK = 1_000_000  # units of all templates of one decision, or of one task's call
TOO_MUCH = f"the template does too much work (limit {MAX_WORK} units)"
TOO_MUCH_TOGETHER = f"the templates of one decision do too much work together (limit {MAX_DECISION_WORK} units)"
_ENDLESS = 2**62
P = ParamSpec("P")
T = TypeVar("T")


class Limit(Signal):
    """A bound was reached; the message names it."""


class Budget:
    """What a decision has used of its units, and may use at most. `most` None: they are only counted.

    Entered, it is that of everything evaluated within. What a decision within another spends is charged to the one
    around, and not limited by it. (Methods and no generator: every decision and every call of a task enters one.)"""

    __slots__ = ("_token", "most", "refusal", "used")
    _token: "Token[Budget]"

    def __init__(self, most: int | None = MAX_DECISION_WORK, refusal: str = TOO_MUCH_TOGETHER) -> None:
        self.refusal = refusal
        self.most = _ENDLESS if most is None else most
        self.used = 0

    def __enter__(self) -> "Budget":
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        around = self._token.old_value
        _current.reset(self._token)
        if self.used and isinstance(around, Budget):
            around.used += self.used


_current: ContextVar[Budget] = ContextVar("budget")
current: Callable[[], Budget | None] = partial(_current.get, None)


def spend(units: int) -> None:
    """Work of the current decision that no template does, but an author can make large."""
    budget = current()
    if budget is None:
        return
    assert units >= 0
    budget.used += units
    if budget.used > budget.most:
        raise OverLimit(budget.refusal)


def one_decision(function: Callable[P, T]) -> Callable[P, T]:
    """All templates a call evaluates share one budget."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        budget = Budget()  # entered and left as `with` does, without two calls for each decision
        token = _current.set(budget)
        try:
            return function(*args, **kwargs)
        finally:
            _current.reset(token)
            if budget.used and isinstance(around := token.old_value, Budget):
                around.used += budget.used

    return run
