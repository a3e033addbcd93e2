"""Why an execution that is not in the log has not begun: its request waits, or no router could use it."""

from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from services.cli.why.world import Around
from shared.answers.why.facts import Answer, Mover, Reason
from shared.answers.why.pools import PATIENCE_S
from shared.answers.why.remedies import GOES_ON, remedy, start
from shared.bus import api, dead_letters, topology
from shared.bus.codes import NotFound
from shared.bus.jetstream import JetStreamBus
from shared.bus.ports import Message
from shared.errors import Corrupt
from shared.events import subjects
from shared.events.request import Request, decode, decode_child, decode_derived, default_id
from shared.events.stamp import stamp
from shared.runtime.stores import catalog

MAX_READ = 20_000  # requests that wait, looked through for one
MAX_LETTERS = 1000
PENDING = "pending"
SOMEONE: Mover = "someone"
STARTING = (subjects.EXECUTE, subjects.CHILD, subjects.DERIVED)


class Queue(NamedTuple):
    """The requests that wait: how many, those that were read, and up to which sequence routers were given them."""

    size: int
    messages: list[Message]
    delivered: int


async def _queue(bus: JetStreamBus) -> Queue:
    taken = await bus.requests.api(api.consumer_info(topology.REQUESTS, "router"))
    size, floor = taken["num_pending"] + taken["num_ack_pending"], taken["ack_floor"]["stream_seq"]
    wanted = 0 < size <= MAX_READ
    found = await bus.read(topology.REQUESTS, [f"{subjects.REQUESTS}.>"], floor) if wanted else []
    return Queue(size, found, taken["delivered"]["stream_seq"])


async def explained(bus: JetStreamBus, around: Around, execution_id: str) -> Answer | None:
    """None: nobody has heard of it."""
    try:
        queue = await _queue(bus)
    except NotFound:
        return await _not_taken(bus, around, execution_id)
    if queue.size > MAX_READ:
        return await _too_many(around, execution_id, queue.size, "it may be among them")
    created = await bus.created(topology.REQUESTS) if queue.messages else 0
    for number, message in enumerate(queue.messages):
        if _id_of(message, created) == execution_id:
            is_out = message.seq <= queue.delivered
            return await _waits(bus, around, execution_id, message, number, is_out)
    return await _dead(bus, execution_id)


async def waiting(bus: JetStreamBus, around: Around, path: str, most: int) -> tuple[list[Answer], bool]:
    """The executions that were asked for and have not begun, though a router had time for it, the oldest first; and
    whether there are more of them."""
    try:
        queue = await _queue(bus)
    except NotFound:
        return [Answer("", PENDING, (await _unmade(around, {}),))], False
    if queue.size > MAX_READ:
        return [await _too_many(around, "", queue.size, "no router has begun their executions")], False
    created, before = await bus.created(topology.REQUESTS) if queue.messages else 0, await bus.time() - PATIENCE_S
    late = [
        (number, message) for number, message in enumerate(queue.messages)
        if message.subject in STARTING and message.at / 1e9 < before
        and fnmatchcase(_request(message).path, path or "*")
    ]
    answers = [
        await _waits(bus, around, _id_of(message, created), message, number, message.seq <= queue.delivered)
        for number, message in late[:most]
    ]
    return answers, len(late) > most


async def _not_taken(bus: JetStreamBus, around: Around, execution_id: str) -> Answer | None:
    """Nobody is given requests. Which had been taken is not known either: one that began would be in the log."""
    after = max(0, (await bus.state(topology.REQUESTS)).last - MAX_READ)
    created = await bus.created(topology.REQUESTS)
    for message in await bus.read(topology.REQUESTS, [f"{subjects.REQUESTS}.>"], after):
        if _id_of(message, created) == execution_id:
            break
    else:
        return await _dead(bus, execution_id)
    request = _request(message)
    values = {"path": request.path, "version": request.version, "sequence": message.seq, "delivered": False}
    since = stamp(message.at / 1e9)
    return Answer(execution_id, PENDING, (await _unmade(around, values, since),), request.path, request.by)


async def _unmade(around: Around, values: dict[str, Any], since: str = "") -> Reason:
    routers = (await around.members({"router"}))["router"]
    return Reason(
        "request.waiting", "blocked", "its request waits: the consumer that gives requests to routers is not there",
        values={**values, "consumer": False, "routers": list(routers)}, since=since,
        remedy=remedy("requests_made") if routers else start("router"), moved_by=SOMEONE)


async def _too_many(around: Around, execution_id: str, waiting: int, so: str) -> Answer:
    routers = (await around.members({"router"}))["router"]
    text = f"{waiting} requests wait, too many to look through: {so}"
    reason = Reason("request.waiting", "blocked", text, values={"waiting": waiting, "routers": list(routers)},
                    remedy=GOES_ON if routers else start("router"), moved_by=None if routers else SOMEONE)
    return Answer(execution_id, PENDING, (reason,))


def _id_of(message: Message, created: int) -> str:
    own = _request(message).execution_id if message.subject in STARTING else ""
    return own or default_id(message.headers, created, message.seq)


def _request(message: Message) -> Request:
    try:
        match message.subject:
            case subjects.CHILD:
                return decode_child(message.data)[0]
            case subjects.DERIVED:
                return decode_derived(message.data)
            case _:
                return decode(message.data)
    except Corrupt:
        return Request("")


async def _waits(
    bus: JetStreamBus, around: Around, execution_id: str, message: Message, before: int, is_out: bool
) -> Answer:
    request, at = _request(message), message.at / 1e9
    is_young = await bus.time() - at < PATIENCE_S
    routers = () if is_young else (await around.members({"router"}))["router"]
    text, helps, mover = "its request waits for a router", GOES_ON, None
    if is_out:
        text = "a router has its request and has not begun it"
    if not routers and not is_young:
        text, helps, mover = "its request waits, and no router is running", start("router"), SOMEONE
    if request.path and not await _is_registered(bus, request):
        text += f"; no playbook {request.path!r} is registered, so it will be refused"
        helps = remedy("register", helps)
    values = {"path": request.path, "version": request.version, "before": before, "sequence": message.seq,
              "delivered": is_out, "routers": list(routers)}
    reason = Reason("request.waiting", "blocked", text, values=values, since=stamp(at), remedy=helps, moved_by=mover)
    return Answer(execution_id, PENDING, (reason,), request.path, request.by)


async def _is_registered(bus: JetStreamBus, request: Request) -> bool:
    try:
        await catalog.find(bus, request.path, request.version)
    except catalog.NotRegistered:
        return False
    return True


async def _dead(bus: JetStreamBus, execution_id: str) -> Answer | None:
    for letter in reversed(await dead_letters.latest(bus, MAX_LETTERS, "requests")):
        note = letter.note
        if note is not None and f'"{execution_id}"' in note.excerpt:
            text = f"no router could use its request: {note.reason}"
            reason = Reason("request.dead", "over", text, values={"letter": letter.seq, "reason": note.reason},
                            remedy=remedy("show_letter", letter=letter.seq))
            return Answer(execution_id, "refused", (reason,))
    return None
