"""What waits to be done: records not yet decided on, requests not yet handled, and what nobody could read."""

from collections.abc import Sequence

from msgspec import Struct

from services.cli.doctor import dead_letters
from services.cli.doctor.finding import Finding, duration, ok, problem, warning
from services.cli.doctor.target import Patient
from shared.bus import api, stored_messages, topology
from shared.bus.codes import NotFound
from shared.events import subjects
from shared.events.readers import INPUTS
from shared.runtime.control.partitions import decode_cursor

SLOW_S = 10.0   # cursors are saved once a second
STUCK_S = 60.0


class Behind(Struct, frozen=True):
    """Of one service in one partition: how many records wait, and for how long the first of them."""

    partition: int
    cursor: int
    last: int
    waiting: int = 0
    oldest_s: float = 0.0


async def look(patient: Patient) -> list[Finding]:
    found = []
    for service, inputs in INPUTS.items():
        partitions = range(patient.settings.partitions)
        found.append(services(service, [await _behind(patient, service, inputs, each) for each in partitions]))
    return [*found, await _requests(patient), *await dead_letters.look(patient)]


async def _behind(patient: Patient, service: str, inputs: Sequence[str], partition: int) -> Behind:
    bus, stream = patient.bus, topology.events_stream(partition)
    entry = await bus.kv_get(topology.CURSORS, f"{service}.{partition}")
    cursor = decode_cursor(entry.value).seq if entry else 0
    last = await bus.last_seq(stream)
    found = await stored_messages.backlog(bus, stream, subjects.events_by(partition, *inputs), cursor)
    oldest = 0.0 if found.since is None else await bus.time() - found.since
    return Behind(partition, cursor, last, found.waiting, oldest)


def services(service: str, partitions: Sequence[Behind]) -> Finding:
    name = f"lag.{service}"
    ahead = [each for each in partitions if each.cursor > each.last]
    if ahead:
        places = ", ".join(f"partition {each.partition}: {each.cursor} of {each.last}" for each in ahead)
        why = "the stream has lost its end, or was replaced: decisions that were made are not in it any more"
        return problem(name, f"the cursor is beyond the log: {places}", why, "restore the stream from a backup")
    waiting, oldest = sum(each.waiting for each in partitions), max((each.oldest_s for each in partitions), default=0.0)
    found = f"{waiting} records wait" + (f", the first for {duration(oldest)}" if waiting else "")
    if not waiting or oldest < SLOW_S:
        return ok(name, found)
    where = ", ".join(str(each.partition) for each in partitions if each.oldest_s >= SLOW_S)
    why = f"executions of partition {where} do not go on"
    fix = f"look at the {service}'s log; start another one if it is only slow"
    return (problem if oldest >= STUCK_S else warning)(name, found, why, fix)


async def _requests(patient: Patient) -> Finding:
    bus, stream = patient.bus, topology.REQUESTS
    try:
        info = await bus.requests.api(api.consumer_info(stream, "router"))
    except NotFound:
        return requests(0, 0.0)  # reported by the check of the streams
    waiting = int(info["num_pending"]) + int(info["num_ack_pending"])
    after = int(info["ack_floor"]["stream_seq"])
    first = await stored_messages.first(bus, stream, f"{subjects.REQUESTS}.>", after) if waiting else None
    return requests(waiting, await bus.time() - first.at if first else 0.0)


def requests(waiting: int, oldest_s: float) -> Finding:
    name, found = "lag.requests", f"{waiting} requests wait"
    if not waiting or oldest_s < SLOW_S:
        return ok(name, found)
    make = problem if oldest_s >= STUCK_S else warning
    why = "executions that were asked for do not begin"
    return make(name, f"{found}, the first for {duration(oldest_s)}", why, "start a router, or look at its log")
