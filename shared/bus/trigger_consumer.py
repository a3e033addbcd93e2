"""The durable consumer of a trigger on somebody's stream. Made by whoever applies the trigger: a service
that could make consumers on any stream could read any stream."""

from contextlib import suppress
from typing import Any

from shared.bus import api, topology
from shared.bus.codes import NotFound
from shared.bus.jetstream import JetStreamBus
from shared.bus.memory.bus import MemoryBus
from shared.bus.ports import Bus
from shared.errors import Refused

LEASE_S = 30.0
MAX_ACK_PENDING = 1000


def durable(trigger: str) -> str:
    return f"noetl_trigger_{trigger}"


async def ensure(bus: Bus, trigger: str, stream: str, subject: str) -> None:
    """Messages that come from now on; of a work queue, all that are there. Refused when the stream is
    not there, or does not have the subject."""
    name = durable(trigger)
    if isinstance(bus, MemoryBus):
        wanted = topology.QueueConsumer(stream, name, subject, LEASE_S)
        bus.broker.ensure(topology.Topology((), (wanted,), (), 0))
        return
    assert isinstance(bus, JetStreamBus), f"no way to make consumers on {type(bus).__name__}"
    try:
        config = (await bus.requests.api(api.stream_info(stream)))["config"]
    except NotFound:
        raise Refused(f"there is no stream {stream!r}: make it first, or leave `stream` out") from None
    if not any(_overlap(taken, subject) for taken in config.get("subjects") or ()):
        raise Refused(f"stream {stream!r} takes {', '.join(config.get('subjects') or ())}, not {subject!r}")
    create = api.consumer_create(stream, name, subject)
    try:
        found = (await bus.requests.api(api.consumer_info(stream, name)))["config"]
    except NotFound:
        body = _config(name, subject, "all" if config.get("retention") == "workqueue" else "new")
        await bus.requests.api(create, {"stream_name": stream, "config": body, "action": "create"})
        return
    if found.get("filter_subject") != subject:
        body = {**found, "filter_subject": subject}
        await bus.requests.api(create, {"stream_name": stream, "config": body, "action": "update"})


async def remove(bus: Bus, trigger: str, stream: str) -> None:
    """It may be gone already, with its stream."""
    if isinstance(bus, MemoryBus):
        bus.broker.queues.pop((stream, durable(trigger)), None)
        return
    assert isinstance(bus, JetStreamBus), f"no way to remove consumers on {type(bus).__name__}"
    with suppress(NotFound):
        await bus.requests.api(api.consumer_delete(stream, durable(trigger)))


def _config(name: str, subject: str, deliver: str) -> dict[str, Any]:
    return {
        "name": name,
        "durable_name": name,
        "deliver_policy": deliver,
        "ack_policy": "explicit",
        "replay_policy": "instant",
        "filter_subject": subject,
        "ack_wait": int(LEASE_S * 1e9),
        "max_deliver": -1,
        "max_ack_pending": MAX_ACK_PENDING,
    }


def _overlap(pattern: str, other: str) -> bool:
    """Whether a subject can match both."""
    one, two = pattern.split("."), other.split(".")
    for a, b in zip(one, two, strict=False):
        if ">" in (a, b):
            return True
        if a != b and "*" not in (a, b):
            return False
    return len(one) == len(two)
