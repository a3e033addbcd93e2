"""Reads what a stream holds by direct gets: no consumer is made, so thousands of readers cost nothing."""

import re
from base64 import b64decode
from collections.abc import Sequence

import msgspec

from shared.bus import api
from shared.bus.api_requests import Answer, Requests
from shared.bus.codes import NoMessage
from shared.bus.ports import Message
from shared.bus.replicas import Ends, cover
from shared.bus.subject import matches
from shared.bus.wire import nanoseconds, number, parse_headers, status_of
from shared.errors import Corrupt, Refused, Unavailable
from shared.events.headers import (
    EXPECTED_LAST,
    LAST_SEQUENCE,
    NUM_PENDING,
    SEQUENCE,
    STREAM,
    SUBJECT,
    TIME_STAMP,
    UP_TO_SEQUENCE,
)

BATCH = 512
FEW = 64  # messages of a whole execution; most have no more
# Added by the broker to its answer, or of no use to a reader.
_HIDDEN = frozenset(
    {STREAM, SUBJECT, SEQUENCE, TIME_STAMP, NUM_PENDING, LAST_SEQUENCE, UP_TO_SEQUENCE, EXPECTED_LAST}
)
# An answer as nearly all are: a record that carries its expected sequence and no other header. To look at the headers
# one by one takes longer than to decode the record.
USUAL = re.compile(
    rb"NATS/1\.0\r\n(?:%b: \d+\r\n)?%b: [!-~]+\r\n%b: ([!-~]+)\r\n%b: ([1-9]\d{0,17})\r\n%b: ([!-~]+)\r\n"
    rb"(?:%b: \d+\r\n)?(?:%b: \d+\r\n)?\r\n" % tuple(
        name.encode() for name in (EXPECTED_LAST, STREAM, SUBJECT, SEQUENCE, TIME_STAMP, NUM_PENDING, LAST_SEQUENCE))
)  # fmt: skip


class Reader:
    """`read` and `last` are right on one server. On a cluster each answer is some replica's: these are the `Copies`
    that `replicas.py` puts together."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def read(self, stream: str, filters: Sequence[str], after: int) -> list[Message]:
        if len(filters) == 1:
            return await self.tail(stream, filters[0], after)
        if (few := await self._few(stream, filters, after)) is not None:
            return few
        # Each filter is read at its own moment. Without a common bound, a later message of one
        # could be returned while an earlier one of another is missing.
        newest = await self.last(stream, ">")
        if newest is None or newest.seq <= after:
            return []
        found = [m for f in filters for m in await self.tail(stream, f, after) if m.seq <= newest.seq]
        return sorted({m.seq: m for m in found}.values(), key=lambda m: m.seq)

    async def _few(self, stream: str, filters: Sequence[str], after: int) -> list[Message] | None:
        """By one request for all that the filters share, where that is an execution and it has not much to say: loading
        thousands of them after a restart is mostly this. None: it has more, so each filter is worth its own request."""
        whole = cover(filters)
        if whole == ">":
            return None
        found, end = await self._ask(stream, {"seq": after + 1, "next_by_subj": whole, "batch": FEW})
        if number(end.get(NUM_PENDING, "")):
            return None
        return [m for m in found if any(matches(f, m.subject) for f in filters)]

    async def last(self, stream: str, subject: str) -> Message | None:
        """The last message of a subject or of a wildcard."""
        if "*" in subject or ">" in subject:
            body = msgspec.json.encode({"last_by_subj": subject})
            answer = await self._requests.one(api.subject(api.direct_get(stream)), body)
        else:
            answer = await self._requests.one(api.subject(api.direct_get(stream, subject)))
        return None if _is_end(answer, stream) else message_of(answer)

    async def tail(self, stream: str, subject: str, after: int) -> list[Message]:
        found: list[Message] = []
        while True:
            more, pending = await self.page(stream, subject, after, BATCH)
            found += more
            if not more or not pending:
                return found
            after = found[-1].seq

    async def page(self, stream: str, subject: str, after: int, limit: int) -> tuple[list[Message], int]:
        """Up to `limit` messages as one replica has them, and how many it has beyond them."""
        found, end = await self._ask(stream, {"seq": after + 1, "next_by_subj": subject, "batch": min(limit, BATCH)})
        return found, number(end.get(NUM_PENDING, ""))

    async def ends(self, stream: str, filters: Sequence[str]) -> Ends | None:
        found, end = await self._ask(stream, {"multi_last": list(filters)})
        if not found:
            return None
        lasts = {f: max([m.seq for m in found if matches(f, m.subject)], default=0) for f in filters}
        return lasts, number(end.get(UP_TO_SEQUENCE, ""))

    async def of_leader(self, stream: str, subject: str) -> Message | None:
        try:
            stored = await self._requests.of_leader(stream, {"last_by_subj": subject})
        except NoMessage:
            return None
        headers, at = _kept(parse_headers(b64decode(stored.get("hdrs", "")))), nanoseconds(stored["time"])
        return Message(stored["subject"], b64decode(stored.get("data", "")), stored["seq"], headers, at)

    async def _ask(self, stream: str, body: dict[str, object]) -> tuple[list[Message], dict[str, str]]:
        """One request to one replica: its messages, and what it says at their end."""
        *answers, end = await self._requests.run(api.subject(api.direct_get(stream)), msgspec.json.encode(body))
        _is_end(end, stream)
        return [message_of(answer) for answer in answers], parse_headers(end[0]) or {}


def _is_end(answer: Answer, stream: str) -> bool:
    """True for "there is no (further) message"; raises for any other status."""
    match status_of(answer[0]):
        case 0:
            return False
        case 204 | 404:
            return True
        case 503:
            raise Unavailable(f"stream {stream} does not answer")
        case code:
            raise Refused(f"stream {stream} refused a read: status {code}")


def message_of(answer: Answer) -> Message:
    if (usual := USUAL.fullmatch(answer[0])) is not None:
        subject, seq, time = usual.groups()
        return Message(subject.decode(), answer[1], int(seq), None, nanoseconds(time.decode()))
    headers = parse_headers(answer[0]) or {}
    seq = number(headers.get(SEQUENCE, ""))
    if not seq or SUBJECT not in headers:
        raise Corrupt(f"an answer to a direct get without {SEQUENCE} or {SUBJECT}")
    return Message(headers[SUBJECT], answer[1], seq, _kept(headers), nanoseconds(headers.get(TIME_STAMP, "")))


def _kept(headers: dict[str, str] | None) -> dict[str, str] | None:
    """The headers that a message was given."""
    return {k: v for k, v in (headers or {}).items() if k not in _HIDDEN} or None
