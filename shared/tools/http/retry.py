"""`spec.retry` of http (V10 §9.1): the same request again, inside one call and within its time.

Repeated is what a server may be asked twice (RFC 9110 §9.2.2: GET, HEAD, OPTIONS, PUT, DELETE), when there was no
answer or one that may be another next time (408, 425, 429, 5xx): `error.retryable` says so. POST and PATCH are never
repeated here, whatever their headers say, because a call without an answer may have been carried out. Rules of the task
see the last outcome alone, with `outcome.http.attempts`; each of their retries is an event, and these are none.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

from shared.dsl.model.tool_spec import OWN_ATTEMPTS, OWN_DELAY_S, OWN_RETRY
from shared.events.outcome import Outcome
from shared.tools.base.guard import BadCall

DEFAULT_DELAY_S = 0.2
REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})


class Retry(Struct, frozen=True):
    """`attempts` counts all, the first included; the delay doubles."""

    attempts: int = 1
    delay_s: float = DEFAULT_DELAY_S


def retry_of(spec: Mapping[str, Any]) -> Retry:
    given = spec.get("retry")
    if given is None:
        return Retry()
    if not isinstance(given, Mapping) or not given.keys() <= set(OWN_RETRY):
        raise BadCall("spec.retry is {attempts: 3, delay: 0.2}")
    attempts, delay = given.get("attempts", 2), given.get("delay", DEFAULT_DELAY_S)
    if type(attempts) is not int or not 1 <= attempts <= OWN_ATTEMPTS:
        raise BadCall(f"spec.retry.attempts must be a whole number from 1 to {OWN_ATTEMPTS}")
    if type(delay) not in (int, float) or not 0 <= delay <= OWN_DELAY_S:
        raise BadCall(f"spec.retry.delay must be seconds from 0 to {OWN_DELAY_S}")
    return Retry(attempts, float(delay))


async def repeated(
    retry: Retry, method: str, send: Callable[[], Awaitable[Outcome]], counted: Callable[[int], None]
) -> Outcome:
    """The outcome of the last attempt; `counted` is told each one before it begins."""
    most, delay = retry.attempts if method in REPEATABLE else 1, retry.delay_s
    for attempt in range(1, most):
        counted(attempt)
        outcome = await send()
        if outcome.error is None or not outcome.error.get("retryable"):
            return outcome
        await asyncio.sleep(delay)
        delay = min(delay * 2, OWN_DELAY_S)
    counted(most)
    return await send()
