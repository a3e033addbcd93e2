"""Whatever stands in the subject, the reply and the header of a message: the reader of the protocol goes on, no handler
raises, a follower and a queue give each message that came from their consumer, and the subjects and headers that they
give can be written anywhere."""

import asyncio
import random
from typing import Any, NamedTuple, cast

import msgspec
from nats.aio.subscription import Subscription
from structlog.testing import capture_logs

from shared.bus.api_requests import Requests
from shared.bus.jetstream import CoreInbox
from shared.bus.ports import Delivery, Message
from shared.bus.publisher import Publisher
from shared.bus.pull import ack_subject
from shared.bus.queue_consumer import QueueConsumer
from shared.bus.stream_follower import StreamFollower
from shared.bus.wire import Connection, Handler
from shared.errors import Corrupt, NoetlError
from shared.events.letter import read, write
from shared.events.record import decode
from tests.property.fuzz.byte_changes import NASTY, mutated
from tests.property.fuzz.runner import Fuzzer, Seen

PARTITIONS = 4
MAX_MESSAGES = 20
AT = 1_800_000_000_000_000_000
SUBJECTS = (
    b"noetl.events.0.x.worker.default", b"noetl.events.1.a-1.router", b"noetl.requests.execute", b"ext.orders.new",
    b"$KV.noetl_workers.default.w-1", b"_INBOX.x.1", b"_INBOX.x.12",
)
REPLIES = (
    b"$JS.ACK.S.c.1.1.1.1700.0", b"$JS.ACK.hub.HASH.S.c.1.1.1.1700.0.x", b"_INBOX.me.1", b"a",
)
HEADERS = (
    b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 7\r\n\r\n", b"NATS/1.0 404 No Messages\r\n\r\n",
    b"NATS/1.0 408 Timeout\r\nNats-Pending-Messages: 3\r\nNats-Pending-Bytes: 0\r\n\r\n", b"NATS/1.0 503\r\n\r\n",
    b"NATS/1.0 100 Idle\r\n\r\n", b"NATS/1.0\r\nNats-Msg-Id: a\r\nNoetl-Reply-To: _INBOX.a\r\n\r\n", b"",
)
DATA = (
    b"", b"{}", b'{"stream":"S","seq":7}',
    b'{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"}}',
)


class Frame(NamedTuple):
    """One message. `is_delivery`: its reply is that of the consumer, in order."""

    subject: bytes
    reply: bytes
    header: bytes
    data: bytes
    is_delivery: bool

    def line(self, sid: bytes, reply: bytes) -> bytes:
        named = b"%b %b%b" % (self.subject, sid, b" " + reply if reply else b"")
        sizes = b"%d %d" % (len(self.header), len(self.header) + len(self.data))
        if not self.header:
            return b"MSG %b %d\r\n%b\r\n" % (named, len(self.data), self.data)
        return b"HMSG %b %b\r\n%b%b\r\n" % (named, sizes, self.header, self.data)


class Case(NamedTuple):
    kind: str
    frames: list[Frame]
    cuts: list[int]


class Wire(Connection):
    """A connection to nobody: what is sent is forgotten, and a case says what comes."""

    is_connected = True
    is_clustered = False

    def __init__(self) -> None:
        super().__init__()
        self.routed = asyncio.Event()
        self._inbox_prefix = bytearray(b"_INBOX")
        self._max_payload = 1_000_000

    async def read(self, data: bytes) -> None:
        await self._ps.parse(data)

    async def route(self, _subject: str, handler: Handler, group: str = "") -> Subscription:
        del group  # nobody else takes a part
        self.routes[b"1"] = handler
        self.routed.set()
        return cast(Subscription, object())

    async def unroute(self, _subscription: Subscription, *, finish: bool = False) -> None:
        self.routes.clear()

    def write(self, _command: bytes) -> None:
        pass

    async def api(self, _subject: str, _body: object = None, *, again: bool = False) -> dict[str, Any]:
        return {"state": {"last_seq": 0}}


def make(chance: random.Random) -> Case:
    frames = [_frame(chance) for _ in range(chance.randint(1, MAX_MESSAGES))]
    return Case(chance.choice(sorted(READERS)), frames, [chance.randrange(1, 400) for _ in range(chance.randrange(20))])


def _frame(chance: random.Random) -> Frame:
    subject, reply = _word(chance, SUBJECTS) or b"s", _word(chance, REPLIES)
    header = mutated(chance, HEADERS) if chance.random() < 0.7 else b""
    return Frame(subject, reply, header[:60_000], mutated(chance, DATA), chance.random() < 0.7)


def _word(chance: random.Random, examples: tuple[bytes, ...]) -> bytes:
    """What the broker lets stand in a line: no space, tab or line break."""
    word = mutated(chance, examples) if chance.random() < 0.6 else chance.choice(examples)
    if chance.random() < 0.3:
        word += chance.choice((b".", b"")) + chance.choice(NASTY)
    if chance.random() < 0.3:
        word += bytes(chance.randrange(256) for _ in range(8)) + b"\x0b\x0c\x1c\x85"
    return bytes(byte for byte in word if byte not in b" \t\r\n")[:4000]


def promise(case: Case) -> Seen:
    return asyncio.run(_held(case))


async def _held(case: Case) -> Seen:
    wire = Wire()
    with capture_logs() as told:
        kinds = await READERS[case.kind](wire, case)
        await _statuses(wire, case)
    assert not [each for each in told if each["event"] == "bus.unhandled"], told
    return Seen([case.kind, *kinds])


async def _read(wire: Wire, case: Case) -> int:
    """Every message, in pieces; how many were deliveries of the consumer."""
    count, stream = 0, b""
    for frame in case.frames:
        reply = frame.reply
        if frame.is_delivery:
            count += 1
            reply = b"$JS.ACK.S.c.1.%d.%d.%d.0" % (count, count, AT)
        elif ack_subject(reply) is not None:
            reply = b"nobodys"
        stream += frame.line(b"1", reply or b"nobodys")
    for cut in case.cuts:
        piece, stream = stream[:cut], stream[cut:]
        await wire.read(piece)
    await wire.read(stream + b"+OK\r\n")
    return count


async def _statuses(wire: Wire, case: Case) -> None:
    """What comes without a reply is the broker's word about a pull request."""
    for frame in case.frames:
        await wire.read(frame.line(b"1", b""))


async def _follower(wire: Wire, case: Case) -> list[str]:
    follower = StreamFollower(wire, cast(Requests, wire), "_INBOX.f", "S", [">"], 0)
    reading = asyncio.ensure_future(follower.batch())
    await wire.routed.wait()
    await asyncio.sleep(0)
    count = await _read(wire, case)
    if not count:
        reading.cancel()
        return ["nothing"]
    return [_told(message) for message in _whole(await reading, count)]


def _whole(found: Any, count: int) -> list[Message]:
    assert [message.seq for message in found] == list(range(1, count + 1))
    return list(found)


async def _queue(wire: Wire, case: Case) -> list[str]:
    consumer = QueueConsumer(wire, lambda: 0.0, "S", "c", 8)
    await consumer.start()
    count = await _read(wire, case)
    if not count:
        return ["nothing"]
    found = await consumer.batch(1000)
    assert [delivery.seq for delivery in found] == list(range(1, count + 1))
    return [_told(cast(Delivery, delivery)) for delivery in found]


async def _inbox(wire: Wire, case: Case) -> list[str]:
    inbox = CoreInbox(wire)
    await inbox.open("a.>", "")
    await _read(wire, case)
    return [_told(await inbox.message()) for _ in case.frames]


async def _publisher(wire: Wire, case: Case) -> list[str]:
    """An answer nobody waits for is forgotten, and the one that is waited for comes."""
    publisher = Publisher(wire, "_INBOX.x")
    await publisher.start()
    sent = await publisher.send("a.b", b"", None, None)
    await _read(wire, case)
    await wire.read(b'MSG _INBOX.x.1 1 9\r\n{"seq":3}\r\n')
    assert sent.done()
    publisher.stop()
    return ["answered" if sent.exception() is None else type(sent.exception()).__name__]


async def _requests(wire: Wire, case: Case) -> list[str]:
    requests = Requests(wire, "_INBOX.x")
    await requests.start()
    asking = asyncio.ensure_future(requests.api("INFO"))
    await asyncio.sleep(0)
    await _read(wire, case)
    await wire.read(b"MSG _INBOX.x.1 1 2\r\n{}\r\n")
    try:
        await asking
    except NoetlError as error:
        return [type(error).__name__]
    return ["answered"]


def _told(message: Message | Delivery) -> str:
    """It can be judged, and told in a letter."""
    note = read(write("S/1", "why", message.data, subject=message.subject, headers=message.headers))
    assert note is not None
    msgspec.json.encode((message.subject, message.headers))
    if isinstance(message, Message):
        try:
            decode(message, PARTITIONS)
        except Corrupt:
            return "refused"
    return "taken"


READERS = {
    "follower": _follower, "queue": _queue, "inbox": _inbox, "publisher": _publisher, "requests": _requests,
}
FUZZER = Fuzzer("wire", make, promise, frozenset((*READERS, "refused", "taken", "answered")), most_s=0.5)
