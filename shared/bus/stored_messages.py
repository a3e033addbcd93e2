"""One message of a stream with the time the broker gave it, read without disturbing anyone."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from shared.bus import api
from shared.bus.jetstream import JetStreamBus
from shared.bus.wire import nanoseconds, number, parse_headers, status_of
from shared.events.headers import NUM_PENDING, SEQUENCE, SUBJECT, TIME_STAMP
from shared.events.stamp import stamp


class StoredMessage(Struct, frozen=True):
    """`more` is how many of the same filter come after it."""

    subject: str
    seq: int
    at: float
    data: bytes
    more: int = 0


class Backlog(Struct, frozen=True):
    """How many messages wait, and since when the first of them; None when there is none."""

    waiting: int
    since: float | None


async def backlog(bus: JetStreamBus, stream: str, filters: Sequence[str], after: int) -> Backlog:
    """What a reader of the filters has before it that has handled everything up to a sequence."""
    each_first = [await first(bus, stream, each, after) for each in filters]
    firsts = [found for found in each_first if found is not None]
    return Backlog(sum(1 + found.more for found in firsts), min((found.at for found in firsts), default=None))


async def first(bus: JetStreamBus, stream: str, subject: str, after: int = 0) -> StoredMessage | None:
    """The first message of the filter beyond a sequence."""
    return await _next(bus, stream, {"seq": after + 1, "next_by_subj": subject})


async def since(bus: JetStreamBus, stream: str, at: float) -> StoredMessage | None:
    """The first message that is not older."""
    return await _next(bus, stream, {"start_time": stamp(at), "next_by_subj": ">"})


async def _next(bus: JetStreamBus, stream: str, what: dict[str, object]) -> StoredMessage | None:
    body = msgspec.json.encode({**what, "batch": 1})
    answers = await bus.requests.run(api.subject(api.direct_get(stream)), body)
    messages = [answer for answer in answers if status_of(answer[0]) == 0]
    if not messages:
        return None
    ends = [parse_headers(answer[0]) or {} for answer in answers if status_of(answer[0])]
    more = number(ends[0].get(NUM_PENDING, "")) if ends else 0
    return _stored(messages[0], more)


async def last(bus: JetStreamBus, stream: str, subject: str) -> StoredMessage | None:
    body = msgspec.json.encode({"last_by_subj": subject})
    answer = await bus.requests.one(api.subject(api.direct_get(stream)), body)
    return None if status_of(answer[0]) else _stored(answer)


def _stored(answer: tuple[bytes, bytes], more: int = 0) -> StoredMessage:
    headers = parse_headers(answer[0]) or {}
    at = nanoseconds(headers.get(TIME_STAMP, "")) / 1e9
    return StoredMessage(headers.get(SUBJECT, ""), number(headers.get(SEQUENCE, "")), at, answer[1], more)
