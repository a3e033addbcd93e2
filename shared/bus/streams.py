"""Makes the broker look like the topology. What exists with another setting is reported, not changed."""

from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct

from shared.bus import api, kv, topology
from shared.bus.api_requests import Requests
from shared.bus.codes import NotFound
from shared.bus.jetstream import JetStreamBus
from shared.bus.memory.bus import MemoryBus
from shared.bus.ports import Bus
from shared.events import subjects

# Changing these neither loses messages nor weakens a promise; those of GROWING, to more of it.
SAFE = frozenset(
    {"subjects", "duplicate_window", "max_msg_size", "ack_wait", "max_ack_pending", "allow_direct"}
)
GROWING = frozenset({"max_msgs_per_subject", "num_replicas"})
LIMIT = "max_bytes"  # changed where what is there fits
AGE = "max_age"  # changed where somebody has said it
STRICTER = {"discard": "new"}  # at a limit, refusing what is new instead of deleting what is old


ONE_COPY = topology.Provision()


class Drift(Struct, frozen=True):
    """`name` is a stream, or `stream/consumer`. `applied`: it has been changed to what is wanted."""

    name: str
    field: str
    wanted: Any
    found: Any
    applied: bool = False


def queue_only(wanted: topology.Topology) -> topology.Topology:
    """The command queue alone: what a scheduler makes again after a server restart."""
    return topology.Topology(
        streams=tuple(s for s in wanted.streams if s.name == topology.COMMANDS),
        consumers=tuple(c for c in wanted.consumers if c.stream == topology.COMMANDS),
        buckets=(),
        partitions=wanted.partitions,
    )


async def ensure(
    bus: Bus, wanted: topology.Topology, provision: topology.Provision = ONE_COPY, *, apply: bool = False
) -> list[Drift]:
    """Idempotent. With `apply`, differences in SAFE settings are changed to what is wanted."""
    if isinstance(bus, MemoryBus):
        bus.broker.ensure(wanted)
        return []
    assert isinstance(bus, JetStreamBus), f"no way to make streams on {type(bus).__name__}"
    requests, drifts = bus.requests, list[Drift]()
    configs = [_stream(s, provision) for s in wanted.streams] + [_bucket(b, provision) for b in wanted.buckets]
    for config in configs:
        drifts += await _ensure_stream(requests, config, provision, apply)
    for consumer in wanted.consumers:
        drifts += await _ensure_consumer(requests, consumer, apply)
    return drifts


async def keep(bus: JetStreamBus, ages: Mapping[str, float]) -> list[str]:
    """Sets how long streams keep what is in them, in seconds; gives those that changed. What is older goes at once."""
    changed = []
    for name, age_s in ages.items():
        config = (await bus.requests.api(api.stream_info(name)))["config"]
        if config.get(AGE, 0) != int(age_s * 1e9):
            await bus.requests.api(api.stream_update(name), {**config, AGE: int(age_s * 1e9)})
            changed.append(name)
    return changed


async def differences(
    bus: JetStreamBus, wanted: topology.Topology, provision: topology.Provision = ONE_COPY
) -> tuple[list[str], list[Drift]]:
    """What is missing, and what is there with another setting. Changes nothing."""
    missing, drifts = list[str](), list[Drift]()
    configs = [_stream(s, provision) for s in wanted.streams] + [_bucket(b, provision) for b in wanted.buckets]
    places = [(config["name"], api.stream_info(config["name"]), config) for config in configs]
    places += [(f"{c.stream}/{c.name}", api.consumer_info(c.stream, c.name), _lasting(_consumer(c)))
               for c in wanted.consumers]
    for name, subject, config in places:
        try:
            drifts += _compare(name, config, (await bus.requests.api(subject))["config"], False)[0]
        except NotFound:
            missing.append(name)
    return missing, drifts


async def _ensure_stream(
    requests: Requests, config: dict[str, Any], provision: topology.Provision, apply: bool
) -> list[Drift]:
    name = config["name"]
    try:
        info = await requests.api(api.stream_info(name))
    except NotFound:
        await requests.api(api.stream_create(name), config)
        return []
    found = info["config"]
    safe = {AGE} if name in provision.max_age_s else set[str]()
    if config.get(LIMIT, -1) >= info["state"]["bytes"]:
        safe.add(LIMIT)
    drifts, changed = _compare(name, config, found, apply, safe)
    if changed:
        await requests.api(api.stream_update(name), {**found, **changed})
    return drifts


async def _ensure_consumer(
    requests: Requests, wanted: topology.QueueConsumer, apply: bool
) -> list[Drift]:
    config = _consumer(wanted)
    create = api.consumer_create(wanted.stream, wanted.name)
    body = {"stream_name": wanted.stream, "config": config}
    try:
        found = (await requests.api(api.consumer_info(wanted.stream, wanted.name)))["config"]
    except NotFound:
        paused = {"pause_until": wanted.paused_until} if wanted.paused_until else {}
        await requests.api(create, {**body, "config": {**config, **paused}, "action": "create"})
        return []
    drifts, changed = _compare(f"{wanted.stream}/{wanted.name}", _lasting(config), found, apply)
    if changed:
        await requests.api(create, {**body, "config": {**found, **changed}, "action": "update"})
    return drifts


def _compare(
    name: str, wanted: dict[str, Any], found: dict[str, Any], apply: bool, also: Collection[str] = ()
) -> tuple[list[Drift], dict[str, Any]]:
    """The broker leaves a field out when it has its zero value. `also`: what is safe to change in this case."""
    differing = {k: v for k, v in wanted.items() if found.get(k, _zero(v)) != v}
    changed = {
        k: v for k, v in differing.items() if apply and (k in also or is_safe(Drift(name, k, v, found.get(k))))
    }
    return [Drift(name, k, v, found.get(k), k in changed) for k, v in differing.items()], changed


def is_safe(drift: Drift) -> bool:
    """Whether it can be changed to what is wanted without a loss."""
    if drift.field in GROWING:
        return 0 < (drift.found or 0) < int(drift.wanted)
    return drift.field in SAFE or STRICTER.get(drift.field) == drift.wanted


def _zero(value: Any) -> Any:
    return type(value)()


def _stream(stream: topology.Stream, provision: topology.Provision) -> dict[str, Any]:
    once, limit = stream.write_once, provision.max_bytes.get(stream.name, 0)
    assert not (limit and stream.sealed), "the log has no limit"
    base = _base(stream.name, list(stream.subjects), provision)
    if stream.name in topology.LIMITED.values():
        del base[LIMIT]  # unless a setting says it, it is for whoever keeps the broker to say
    return base | {
        "storage": stream.storage,
        "retention": stream.retention,
        # The log is never shortened: at a limit that somebody sets, writers are refused, and wait.
        # Nor is a request forgotten that nobody has taken yet.
        "discard": "new" if once or stream.sealed or stream.name == topology.REQUESTS else "old",
        **({LIMIT: limit} if limit else {}),
        "discard_new_per_subject": once,
        "max_msgs_per_subject": 1 if once else -1,
        "max_msg_size": stream.max_msg_bytes,
        AGE: int(provision.max_age_s.get(stream.name, stream.max_age_s) * 1e9),
        "max_msgs": stream.max_msgs,
        "deny_delete": stream.sealed,
        "deny_purge": stream.sealed,
        "duplicate_window": int(stream.duplicate_window_s * 1e9),
        # A direct get on a queue would read what someone else holds.
        "allow_direct": stream.retention == "limits",
    }


def _bucket(bucket: topology.Bucket, provision: topology.Provision) -> dict[str, Any]:
    ttl = int(bucket.ttl_s * 1e9)
    return _base(kv.stream_of(bucket.name), [subjects.key(bucket.name)], provision) | {
        "storage": "file",
        "retention": "limits",
        "discard": "new",
        "max_msgs_per_subject": bucket.history,
        "max_age": ttl,
        "deny_delete": True,
        "deny_purge": False,
        "allow_direct": True,
        # The broker wants it no longer than the age of a message.
        "duplicate_window": min(ttl or int(120e9), int(120e9)),
    }


def _base(name: str, subjects: list[str], provision: topology.Provision) -> dict[str, Any]:
    """No schedules, rollups, per-message TTLs or atomic batches: each is a way around a permission."""
    return {
        "name": name,
        "subjects": subjects,
        "num_replicas": provision.replicas,
        **({"placement": {"tags": list(provision.placement)}} if provision.placement else {}),
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
        "allow_rollup_hdrs": False,
        "allow_msg_ttl": False,
        "allow_msg_schedules": False,
        "allow_atomic": False,
        "sealed": False,
    }


def _lasting(config: dict[str, Any]) -> dict[str, Any]:
    """Where a consumer began means nothing once it is there."""
    return {key: value for key, value in config.items() if key not in ("deliver_policy", "opt_start_seq")}


def _consumer(wanted: topology.QueueConsumer) -> dict[str, Any]:
    start = {"deliver_policy": "by_start_sequence", "opt_start_seq": wanted.after + 1}
    return (start if wanted.after else {"deliver_policy": "all"}) | {
        "name": wanted.name,
        "durable_name": wanted.name,
        "ack_policy": "explicit",
        "replay_policy": "instant",
        "filter_subject": wanted.filter,
        "ack_wait": int(wanted.lease_s * 1e9),
        "max_deliver": -1,
        "max_ack_pending": wanted.max_ack_pending,
    }
