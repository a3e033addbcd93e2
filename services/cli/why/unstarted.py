"""Why an execution that is not in the log has not begun: its request waits, or no router could use it."""

import time

import msgspec

from services.cli.why_around import Around
from shared.bus import letters, topology
from shared.bus.jetstream import JetStreamBus
from shared.bus.ports import Message
from shared.engine.why_facts import Answer, Reason
from shared.engine.why_pools import PATIENCE_S
from shared.errors import Corrupt
from shared.events import subjects
from shared.events.request import Request, decode, derive_id
from shared.events.stamp import stamp
from shared.runtime import catalog

MAX_READ = 20_000  # requests that wait, looked through for one
MAX_LETTERS = 1000
MESSAGE_ID = "Nats-Msg-Id"
PENDING = "pending"
START = "start a router: python -m services.router"


class _Note(msgspec.Struct, frozen=True):
    """A dead letter of a request."""

    reason: str = ""
    request: str = ""


async def explained(bus: JetStreamBus, around: Around, execution_id: str) -> Answer | None:
    """None: nobody has heard of it."""
    taken = await bus.requests.api(f"CONSUMER.INFO.{topology.REQUESTS}.router")
    waiting = taken["num_pending"] + taken["num_ack_pending"]
    if waiting > MAX_READ:
        return await _too_many(around, execution_id, waiting)
    if waiting:
        found = await bus.read(topology.REQUESTS, [f"{subjects.REQUESTS}.>"], taken["ack_floor"]["stream_seq"])
        created = await bus.created(topology.REQUESTS)
        for number, message in enumerate(found):
            if _id_of(message, created) == execution_id:
                is_out = message.seq <= taken["delivered"]["stream_seq"]
                return await _waits(bus, around, execution_id, message, number, is_out)
    return await _dead(bus, execution_id)


async def _too_many(around: Around, execution_id: str, waiting: int) -> Answer:
    routers = (await around.members({"router"}))["router"]
    text = f"{waiting} requests wait, too many to look through: it may be among them"
    reason = Reason("request.waiting", "blocked", text, values={"waiting": waiting, "routers": list(routers)},
                    remedy="it goes on by itself" if routers else START)
    return Answer(execution_id, PENDING, (reason,))


def _id_of(message: Message, created: int) -> str:
    request_id = (message.headers or {}).get(MESSAGE_ID, "")
    own = _request(message).execution_id if message.subject == subjects.EXECUTE else ""
    return own or (derive_id("id", request_id) if request_id else derive_id("seq", created, message.seq))


def _request(message: Message) -> Request:
    try:
        return decode(message.data)
    except Corrupt:
        return Request("")


async def _waits(
    bus: JetStreamBus, around: Around, execution_id: str, message: Message, before: int, is_out: bool
) -> Answer:
    request, at = _request(message), await around.time_of(topology.REQUESTS, message.seq)
    is_young = time.time() - at < PATIENCE_S
    routers = () if is_young else (await around.members({"router"}))["router"]
    text, remedy = "its request waits for a router", "it goes on by itself"
    if is_out:
        text = "a router has its request and has not begun it"
    if not routers and not is_young:
        text, remedy = "its request waits, and no router is running", START
    if request.path and not await _is_registered(bus, request):
        text += f"; no playbook {request.path!r} is registered, so it will be refused"
        remedy = f"noetlctl register FILE; {remedy}"
    values = {"path": request.path, "version": request.version, "before": before, "sequence": message.seq,
              "delivered": is_out, "routers": list(routers)}
    reason = Reason("request.waiting", "blocked", text, values=values, since=stamp(at), remedy=remedy)
    return Answer(execution_id, PENDING, (reason,), request.path, request.by)


async def _is_registered(bus: JetStreamBus, request: Request) -> bool:
    try:
        await catalog.find(bus, request.path, request.version)
    except catalog.NotRegistered:
        return False
    return True


async def _dead(bus: JetStreamBus, execution_id: str) -> Answer | None:
    for letter in reversed(await letters.latest(bus, MAX_LETTERS, "requests")):
        note = msgspec.json.decode(letter.data, type=_Note)
        if f'"{execution_id}"' in note.request:
            text = f"no router could use its request: {note.reason}"
            reason = Reason("request.dead", "over", text, values={"letter": letter.seq, "reason": note.reason},
                            remedy=f"noetlctl dlq show {letter.seq}")
            return Answer(execution_id, "refused", (reason,))
    return None
