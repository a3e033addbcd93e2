"""Reads what a stream holds by direct gets: no consumer is made, so thousands of readers cost nothing."""

from collections.abc import Sequence

import msgspec

from shared.bus.ports import Message
from shared.bus.request import Answer, Requests
from shared.bus.wire import parse_headers, status_of
from shared.errors import Corrupt, Refused, Unavailable

BATCH = 512
# Added by the broker to its answer, or of no use to a reader.
_HIDDEN = frozenset(
    "Nats-" + name
    for name in (
        *("Stream", "Subject", "Sequence", "Time-Stamp", "Num-Pending", "Last-Sequence", "UpTo-Sequence"),
        "Expected-Last-Subject-Sequence",
    )
)


class Reader:
    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def read(self, stream: str, filters: Sequence[str], after: int) -> list[Message]:
        if len(filters) == 1:
            return await self._one(stream, filters[0], after)
        # Each filter is read at its own moment. Without a common bound, a later message of one
        # could be returned while an earlier one of another is missing.
        newest = await self.last(stream, ">")
        if newest is None or newest.seq <= after:
            return []
        found = [m for f in filters for m in await self._one(stream, f, after) if m.seq <= newest.seq]
        return sorted({m.seq: m for m in found}.values(), key=lambda m: m.seq)

    async def last(self, stream: str, subject: str) -> Message | None:
        """The last message of a subject or of a wildcard."""
        if "*" in subject or ">" in subject:
            body = msgspec.json.encode({"last_by_subj": subject})
            answer = await self._requests.one(f"$JS.API.DIRECT.GET.{stream}", body)
        else:
            answer = await self._requests.one(f"$JS.API.DIRECT.GET.{stream}.{subject}")
        return None if _is_end(answer, stream) else _message(answer)

    async def _one(self, stream: str, subject: str, after: int) -> list[Message]:
        found: list[Message] = []
        while True:
            body = msgspec.json.encode({"seq": after + 1, "next_by_subj": subject, "batch": BATCH})
            *answers, end = await self._requests.run(f"$JS.API.DIRECT.GET.{stream}", body)
            _is_end(end, stream)
            found += map(_message, answers)
            pending = int((parse_headers(end[0]) or {}).get("Nats-Num-Pending", "0"))
            if not answers or not pending:
                return found
            after = found[-1].seq


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


def _message(answer: Answer) -> Message:
    headers = parse_headers(answer[0]) or {}
    try:
        subject, seq = headers["Nats-Subject"], int(headers["Nats-Sequence"])
    except KeyError as error:
        raise Corrupt(f"an answer to a direct get without {error}") from None
    kept = {k: v for k, v in headers.items() if k not in _HIDDEN}
    return Message(subject, answer[1], seq, kept or None)
