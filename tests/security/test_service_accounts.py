"""The projector and the pools service have accounts of their own: whatever they publish, with whatever reply subject or
header, starts nothing and writes no record but what is theirs."""

import asyncio
import json

import pytest

from shared.bus import topology
from shared.bus.jetstream import JetStreamBus
from shared.bus.topology import COMMANDS, DEAD, KEYCHAIN, REQUESTS, RESULTS, events_stream
from shared.bus.wire import header_block, pub
from shared.errors import NoetlError
from shared.events import subjects
from tests.support.servers.nats import admin, nats_server
from tests.support.users import SETTLE_S, As, as_user, contents

__all__ = ["admin", "as_user", "nats_server"]

EVENTS = events_stream(0)
POOLS = f"KV_{topology.POOLS}"
FORGED = json.dumps({"path": "evil", "version": "1", "payload": {}}).encode()
STATUS = f"$KV.{topology.POOLS}.status.default"

# Where something that is not theirs would begin: an execution, a decision, a command, another's answer, a wiped stream.
TARGETS = (
    subjects.EXECUTE, subjects.CANCEL, "noetl.events.0.x.router", "noetl.events.0.x.control",
    "noetl.commands.default.x.r9", "noetl.dlq.x", f"$KV.{KEYCHAIN}.db",
    f"$JS.API.STREAM.PURGE.{RESULTS}", f"$JS.API.STREAM.PURGE.{EVENTS}", f"$JS.API.STREAM.DELETE.{DEAD}",
)
# What it may do outright needs no way around: it removes results that are old enough (ADR 58).
THEIRS = {"projector": {f"$JS.API.STREAM.PURGE.{RESULTS}"}, "pools": set[str]()}
ASKS: dict[str, list[tuple[str, bytes]]] = {
    "projector": [
        (f"$JS.API.DIRECT.GET.{EVENTS}", b'{"seq": 1}'),
        (f"$JS.API.DIRECT.GET.{EVENTS}", b'{"seq": 1, "batch": 10, "next_by_subj": ">"}'),
        (f"$JS.API.DIRECT.GET.{EVENTS}", b'{"last_by_subj": ">"}'),
        (f"$JS.API.DIRECT.GET.{EVENTS}.noetl.events.0.x.worker", b""),
        (f"$JS.API.STREAM.MSG.GET.{EVENTS}", b'{"seq": 1}'),
        (f"$JS.API.STREAM.INFO.{EVENTS}", b""),
        (f"$JS.API.STREAM.INFO.{topology.TIMEKEEPER}", b""),
        (subjects.TIME, FORGED),
    ],
    "pools": [
        (f"$JS.API.DIRECT.GET.{POOLS}", b'{"last_by_subj": "%s"}' % STATUS.encode()),
        (f"$JS.API.DIRECT.GET.{POOLS}.{STATUS}", b""),
        (f"$JS.API.STREAM.MSG.GET.{POOLS}", b'{"last_by_subj": "%s"}' % STATUS.encode()),
        (f"$JS.API.CONSUMER.INFO.{COMMANDS}.default", b""),
        (f"$JS.API.CONSUMER.PAUSE.{COMMANDS}.default", b'{"pause_until": "2020-01-01T00:00:00Z"}'),
        (STATUS, FORGED),
        ("noetl.ended.default", FORGED),
        (subjects.TIME, FORGED),
    ],
}
PUSH = {"ack_policy": "none", "deliver_policy": "all", "deliver_subject": subjects.EXECUTE}


async def _planted(bus: JetStreamBus) -> None:
    """A forged request where the one who is to be tried could have it sent from."""
    await bus.append("noetl.events.0.x.worker", FORGED)
    await bus.kv_put(topology.POOLS, "status.default", FORGED)


def _but_own(found: dict[str, list[tuple[str, bytes]]]) -> dict[str, list[tuple[str, bytes]]]:
    """What pools say of themselves is theirs to write."""
    return {name: [m for m in messages if m[0] != STATUS] for name, messages in found.items()}


@pytest.mark.parametrize(("user", "subject", "body"), [(user, *ask) for user, asks in ASKS.items() for ask in asks])
async def test_a_reply_subject_starts_nothing(
    as_user: As, admin: JetStreamBus, user: str, subject: str, body: bytes
) -> None:
    await _planted(admin)
    before = _but_own(await contents(admin))
    bus = await as_user(user)
    for target in TARGETS:
        if target not in THEIRS[user]:
            bus.connection.write(pub(subject, target, body))
    await asyncio.sleep(SETTLE_S)
    assert _but_own(await contents(admin)) == before


HEADERS: tuple[dict[str, str], ...] = (
    {"Nats-Schedule": "@at 2020-01-01T00:00:00Z", "Nats-Schedule-Target": subjects.EXECUTE},
    {"Nats-Schedule": "@every 1s", "Nats-Schedule-Target": subjects.EXECUTE}, {"Nats-Rollup": "all"},
    {"Nats-Rollup": "sub"}, {"Nats-TTL": "1s"}, {"Noetl-Reply-To": subjects.EXECUTE},
    {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"},
    {"Nats-Trace-Dest": subjects.EXECUTE}, {"Nats-Trace-Dest": "noetl.events.0.x.router", "Nats-Trace-Only": "1"},
)


@pytest.mark.parametrize(
    ("user", "subject"), [("projector", f"$JS.API.DIRECT.GET.{EVENTS}"), ("pools", STATUS), ("pools", "noetl.ended.x")]
)
async def test_a_header_starts_nothing(as_user: As, admin: JetStreamBus, user: str, subject: str) -> None:
    await _planted(admin)
    before = _but_own(await contents(admin))
    bus = await as_user(user)
    for headers in HEADERS:
        bus.connection.write(pub(subject, "", FORGED, header_block(headers)))
    await asyncio.sleep(1.2)  # for what would be sent by its time
    assert _but_own(await contents(admin)) == before


@pytest.mark.parametrize("user", ["projector", "pools"])
async def test_nobody_makes_a_consumer_that_is_sent_to_the_requests(
    as_user: As, admin: JetStreamBus, user: str
) -> None:
    await _planted(admin)
    before = await contents(admin)
    bus = await as_user(user)
    for stream in (EVENTS, POOLS, REQUESTS, COMMANDS):
        body = json.dumps({"stream_name": stream, "config": {"name": "mine", **PUSH}}).encode()
        for verb in ("CONSUMER.CREATE", "CONSUMER.DURABLE.CREATE"):
            bus.connection.write(pub(f"$JS.API.{verb}.{stream}.mine", "", body))
    await asyncio.sleep(2 * SETTLE_S)
    assert await contents(admin) == before
    for stream in (EVENTS, POOLS, REQUESTS, COMMANDS):
        assert "mine" not in ((await admin.requests.api(f"CONSUMER.NAMES.{stream}"))["consumers"] or [])


NOT_THEIRS = (
    *TARGETS, subjects.PAUSE, subjects.SIGNAL, subjects.RERUN, "noetl.stops.default", "noetl.members.router",
    "noetl.closed.POOL_default", "noetl.claims.default", f"$KV.{topology.CURSORS}.router.0",
    f"$KV.{topology.WORKERS}.default.w1", f"$KV.{topology.POOLS}.pool.default", f"$KV.{topology.PLAYBOOKS}.p",
    "_INBOX_admin.x", "_INBOX_router.x", "_INBOX.x", f"$JS.ACK.{REQUESTS}.router.1.1.1.1.0",
    f"$JS.API.CONSUMER.MSG.NEXT.{REQUESTS}.router", f"$JS.API.CONSUMER.MSG.NEXT.{COMMANDS}.default",
)


@pytest.mark.parametrize("user", ["projector", "pools"])
async def test_what_is_not_theirs_to_say_is_refused(as_user: As, admin: JetStreamBus, user: str) -> None:
    before, others = await contents(admin), [subject for subject in NOT_THEIRS if subject not in THEIRS[user]]
    heard = [await admin.subscribe(subject) for subject in others]
    bus = await as_user(user)
    await asyncio.sleep(SETTLE_S)
    for subject in others:
        bus.connection.write(pub(subject, "", FORGED))
    said = await asyncio.gather(*(asyncio.wait_for(each.next(), 0.4) for each in heard), return_exceptions=True)
    assert [s for s, each in zip(others, said, strict=True) if not isinstance(each, TimeoutError)] == []
    assert await contents(admin) == before


@pytest.mark.parametrize("user", ["projector", "pools"])
async def test_they_hear_nothing_that_is_not_theirs(as_user: As, admin: JetStreamBus, user: str) -> None:
    bus = await as_user(user)
    listened = (">", "noetl.>", "$JS.>", "_INBOX_router.>", f"$KV.{KEYCHAIN}.>", "noetl.members.router", "_R_.>")
    inboxes = [await bus.subscribe(subject) for subject in listened]
    await asyncio.sleep(SETTLE_S)
    for subject in ("noetl.members.router", "_INBOX_router.a", "noetl.events.0.x.router", f"$KV.{KEYCHAIN}.db"):
        await admin.publish(subject, b"private")
    heard = await asyncio.gather(*(asyncio.wait_for(inbox.next(), 0.3) for inbox in inboxes), return_exceptions=True)
    assert all(isinstance(each, TimeoutError) for each in heard)


async def test_the_projector_reads_the_log_and_the_time_and_nothing_else(as_user: As, admin: JetStreamBus) -> None:
    bus = await as_user("projector")
    follower = bus.follow(EVENTS, ["noetl.events.0.>"], 0, lazy=True)
    assert [m.data for m in await asyncio.wait_for(follower.batch(), 5)] == [b"decided"]
    waiting = asyncio.create_task(follower.batch())
    await admin.append("noetl.events.0.y.router", b"more")
    assert [m.data for m in await asyncio.wait_for(waiting, 5)] == [b"more"]
    await follower.close()
    assert await bus.time() > 0
    for bucket in (KEYCHAIN, topology.PLAYBOOKS, topology.CURSORS, topology.WORKERS):
        with pytest.raises(NoetlError):
            await bus.kv_all(bucket)
    for stream in (RESULTS, REQUESTS, COMMANDS, DEAD):
        with pytest.raises(NoetlError):
            await bus.read(stream, [">"])
