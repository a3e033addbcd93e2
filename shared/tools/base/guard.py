"""What every tool does around its work: bound it in time, stop it when cancelled, and turn what goes wrong into an
error outcome."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec

from shared.errors import ToolError
from shared.events.failure import CANCELLED, CONFIG, DECODE, INTERNAL, LIMIT, TIMEOUT
from shared.events.outcome import Outcome, failed
from shared.tools.base.contract import RESULT_DEPTH, Call

STOP_GRACE_S = 5.0      # how long cancelled work may take to clean up before it is abandoned
DEEP = f"what came back is nested over {RESULT_DEPTH} levels deep"
_NESTED = frozenset({dict, list, tuple})


class BadCall(ToolError):
    """The call cannot be made as it is written: an outcome of kind `config`, never retried."""


class TooLarge(ToolError):
    """A result over one of the limits: an outcome of kind `limit`, never retried."""


class CallFailed(ToolError):
    """The call has failed before it was made: an outcome of this kind."""

    def __init__(self, kind: str, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.kind, self.retryable = kind, retryable


async def guarded(
    call: Call,
    work: Coroutine[Any, Any, Outcome],
    abandon: Callable[[], None] = lambda: None,
    **blank: Any,
) -> Outcome:
    """Runs `work` within the call's time. `blank` are the envelope fields an outcome has when there is
    nothing to say (`http`, `pg`, `py`), so that a rule may read them on any failure."""
    try:
        limit = time_limit(call)
    except BadCall as error:
        work.close()
        return failed(CONFIG, str(error), **blank)
    task = asyncio.ensure_future(work)
    late = True
    try:
        await asyncio.wait({task}, timeout=limit)
        late = not task.done()
    except asyncio.CancelledError:
        await _stop(task, abandon)
        if call.printing is not None:
            call.printing.stopped = _stopped(task, blank)
        raise
    finally:
        if not task.done():
            await _stop(task, abandon)
    if late and (not task.done() or task.cancelled() or task.exception()):
        return failed(TIMEOUT, f"no result within {limit:g} s", retryable=True, **blank)
    return _outcome(task, blank)


async def _stop(task: "asyncio.Task[Outcome]", abandon: Callable[[], None]) -> None:
    task.cancel()
    await asyncio.wait({task}, timeout=STOP_GRACE_S)
    if not task.done():
        abandon()
    elif not task.cancelled():
        task.exception()  # what broke while it was stopping is no news


def _stopped(task: "asyncio.Task[Outcome]", blank: dict[str, Any]) -> Outcome:
    """Of a call that was cut short: its tool may have kept what it said."""
    if task.done() and not task.cancelled() and task.exception() is None:
        return task.result()
    return failed(CANCELLED, "cut short", **blank)


def _outcome(task: "asyncio.Task[Outcome]", blank: dict[str, Any]) -> Outcome:
    error = task.exception()
    match error:
        case None:
            return _bounded(task.result(), blank)
        case BadCall():
            return failed(CONFIG, str(error), **blank)
        case TooLarge():
            return failed(LIMIT, str(error), **blank)
        case CallFailed(kind=kind, retryable=retryable):
            return failed(kind, str(error), retryable=retryable, **blank)
        case RecursionError():
            return failed(LIMIT, DEEP, **blank)
        case msgspec.DecodeError():
            return failed(DECODE, f"what came back is not JSON: {error}", **blank)
        case Exception():
            return failed(INTERNAL, f"{type(error).__name__}: {error}", **blank)
        case _:
            raise error


def _bounded(outcome: Outcome, blank: dict[str, Any]) -> Outcome:
    """What is nested deeply can be made, but whoever reads it later may not be able to."""
    if isinstance(outcome, Outcome) and too_deep(outcome.result):
        return failed(LIMIT, DEEP, **{**blank, **({"http": outcome.http} if outcome.http else {})})
    return outcome


def too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(RESULT_DEPTH + 1):
        level = [item for each in level if type(each) in _NESTED
                 for item in (each.values() if type(each) is dict else each) if type(item) in _NESTED]
        if not level:
            return False
    return True


def time_limit(call: Call) -> float:
    """The run's remaining time, or the call's own if that is less."""
    own = own_limit(call)
    return max(call.timeout_s if own is None else min(call.timeout_s, own), 0.0)


def own_limit(call: Call) -> float | None:
    """`spec.timeout`: a number, or `total` of a mapping."""
    given = call.spec.get("timeout")
    if isinstance(given, Mapping):
        given = given.get("total")
    return None if given is None else seconds("timeout", given)


def seconds(name: str, value: Any, owner: str = "spec") -> float:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise BadCall(f"{owner}.{name} is not a number of seconds") from None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        raise BadCall(f"{owner}.{name} is not a positive number of seconds")
    return float(value)


def flag(spec: Mapping[str, Any], name: str) -> bool:
    """A switch that is on unless turned off."""
    value = spec.get(name, True)
    if not isinstance(value, bool):
        raise BadCall(f"spec.{name} must be true or false")
    return value


def refusal(check: Callable[[Any], object]) -> Callable[[Any], str]:
    """Why a check refuses a value, for `KeySpec.wrong`; empty if it does not."""
    def why(value: Any) -> str:
        try:
            check(value)
        except BadCall as error:
            return str(error)
        return ""

    return why


def one_of(config: Mapping[str, Any], *names: str) -> tuple[str, Any] | None:
    """The one key of several aliases that is given; two at once are a mistake."""
    given = [(name, config[name]) for name in names if config.get(name) is not None]
    if len(given) > 1:
        raise BadCall(f"give one of {', '.join(names)}, not {' and '.join(name for name, _ in given)}")
    return given[0] if given else None


def mapping(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = config.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise BadCall(f"{name} must be a mapping, not {type(value).__name__}")
    return value
