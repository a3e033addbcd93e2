"""Ownership is enforced by the broker: what a worker or a service may not do has no effect, by whatever
way it is tried."""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from shared.bus import pool_consumer, topology
from shared.bus.jetstream import JetStreamBus, connect
from shared.bus.topology import COMMANDS, KEYCHAIN, RESULTS, events_stream
from shared.bus.wire import header_block, pub
from shared.errors import NoetlError, Refused, Unavailable
from shared.runtime.nats_server import NatsServer

STREAM = events_stream(0)
As = Callable[[str], Awaitable[JetStreamBus]]
SETTLE_S = 0.15


@pytest.fixture
async def as_user(nats_server: NatsServer, admin: JetStreamBus) -> AsyncIterator[As]:
    await admin.append("noetl.events.0.x.router", b"decided")
    await admin.append("noetl.commands.default.x.r1", b"mine")
    await admin.append("noetl.commands.gpu.x.r2", b"theirs")
    await admin.append("noetl.results.x.sha.0", b"chunk")
    await admin.kv_put(KEYCHAIN, "db", b"secret")
    opened: list[JetStreamBus] = []

    async def open_as(user: str) -> JetStreamBus:
        opened.append(await connect(nats_server.url_for(user)))
        return opened[-1]

    yield open_as
    for bus in opened:
        await bus.close()


async def contents(admin: JetStreamBus) -> dict[str, list[tuple[str, bytes]]]:
    """Everything stored that is not a worker's own to write, by stream."""
    names = (await admin.requests.api("STREAM.NAMES"))["streams"]
    return {name: await _messages(admin, name) for name in names}


async def _messages(admin: JetStreamBus, stream: str) -> list[tuple[str, bytes]]:
    found = []
    for seq in range(1, await admin.last_seq(stream) + 1):
        try:
            answer = await admin.requests.api(f"STREAM.MSG.GET.{stream}", {"seq": seq})
        except Unavailable:
            continue  # acknowledged, expired or replaced
        message = answer["message"]
        if not message["subject"].endswith((".worker", ".iteration", ".waiting")):
            found.append((message["subject"], b64decode(message.get("data", ""))))
    return found


async def shoot(bus: JetStreamBus, subject: str, reply: str, data: bytes, headers: dict[str, str]) -> None:
    """Writes the protocol line itself: no check of the client layer is in the way."""
    bus.connection.write(pub(subject, reply, data, header_block(headers) if headers else b""))
    await asyncio.sleep(SETTLE_S)


FORBIDDEN_TO_WORKERS = [
    "noetl.events.0.x.router",
    "noetl.events.0.x.scheduler",
    "noetl.events.0.x.control",
    "noetl.events.0.x.y.worker",
    "noetl.stops.default",
    "noetl.requests.cancel",
    "noetl.commands.default.x.r9",
    "noetl.commands.gpu.x.r9",
    "noetl.requests.execute",
    "noetl.members.router",
    "noetl.dlq.x",
    "$KV.noetl_workers.gpu.w1",
    "$KV.noetl_playbooks.p",
    "$KV.noetl_keychain.db",
    "$KV.noetl_cursors.router.0",
    "$KV.noetl_ctx.x",
    f"$JS.API.STREAM.PURGE.{STREAM}",
    f"$JS.API.STREAM.DELETE.{STREAM}",
    f"$JS.API.STREAM.UPDATE.{STREAM}",
    f"$JS.API.STREAM.MSG.DELETE.{STREAM}",
    f"$JS.API.STREAM.MSG.GET.KV_{KEYCHAIN}",
    "$JS.API.STREAM.CREATE.MINE",
    f"$JS.API.STREAM.PURGE.{RESULTS}",
    f"$JS.API.STREAM.DELETE.{COMMANDS}",
    f"$JS.API.CONSUMER.CREATE.{STREAM}.mine",
    f"$JS.API.CONSUMER.CREATE.{COMMANDS}.mine",
    f"$JS.API.CONSUMER.DELETE.{COMMANDS}.gpu",
    f"$JS.API.CONSUMER.MSG.NEXT.{COMMANDS}.gpu",
    f"$JS.API.DIRECT.GET.{COMMANDS}",
    f"$JS.ACK.{COMMANDS}.gpu.1.2.1.1.0",
    f"$JS.API.DIRECT.GET.KV_{topology.WORKERS}",
    "$SYS.REQ.SERVER.PING",
]


@pytest.mark.parametrize("subject", FORBIDDEN_TO_WORKERS)
async def test_a_worker_is_refused(as_user: As, admin: JetStreamBus, subject: str) -> None:
    before = await contents(admin)
    worker = await as_user("worker_default")
    with pytest.raises(Refused):
        await worker.append(subject, b"{}")
    assert await contents(admin) == before


@pytest.mark.parametrize("target", ["noetl.events.0.x.router", f"$JS.API.STREAM.PURGE.{RESULTS}", "$KV.noetl_ctx.x"])
@pytest.mark.parametrize(
    ("subject", "body"),
    [
        (f"$JS.API.CONSUMER.MSG.NEXT.{COMMANDS}.default", b'{"batch": 1, "expires": 100000000}'),
        (f"$JS.API.DIRECT.GET.{STREAM}", b'{"seq": 1}'),
        (f"$JS.API.DIRECT.GET.{STREAM}.noetl.events.0.x.router", b""),
        ("noetl.events.0.x.worker", b"progress"),
        ("noetl.results.y.sha.0", b"chunk"),
        (f"$JS.ACK.{COMMANDS}.default.1.1.1.1.0", b"+NXT"),
    ],
)
async def test_a_reply_subject_gets_a_worker_nowhere(
    as_user: As, admin: JetStreamBus, subject: str, body: bytes, target: str
) -> None:
    worker = await as_user("worker_default")
    before = await contents(admin)
    await shoot(worker, subject, target, body, {})
    after = await contents(admin)
    after[RESULTS] = [m for m in after[RESULTS] if m != ("noetl.results.y.sha.0", b"chunk")]
    assert after == before


@pytest.mark.parametrize(
    "headers",
    [
        {"Nats-Schedule": "@at 2020-01-01T00:00:00Z", "Nats-Schedule-Target": "noetl.events.0.x.router"},
        {"Nats-Schedule": "@every 1s", "Nats-Schedule-Target": "noetl.events.0.x.router"},
        {"Nats-Rollup": "all"},
        {"Nats-Rollup": "sub"},
        {"Nats-TTL": "1s"},
        {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"},
    ],
)
@pytest.mark.parametrize(
    "subject", ["noetl.events.0.x.worker", "noetl.results.z.sha.0", "$KV.noetl_workers.default.w1"]
)
async def test_a_header_gets_a_worker_nowhere(
    as_user: As, admin: JetStreamBus, subject: str, headers: dict[str, str]
) -> None:
    worker = await as_user("worker_default")
    before = await contents(admin)
    try:
        await worker.append(subject, b"own", headers=headers)
    except NoetlError as error:
        assert isinstance(error, Refused)  # noqa: PT017  being stored as an inert header is as good
    await asyncio.sleep(1.2 if "Nats-Schedule" in headers or "Nats-TTL" in headers else 0)
    after = await contents(admin)
    for messages in after.values():
        messages[:] = [m for m in messages if m != (subject, b"own")]
    assert {k: v for k, v in after.items() if v} == {k: v for k, v in before.items() if v}


async def test_a_worker_hears_nothing_but_its_own_inbox(as_user: As, admin: JetStreamBus) -> None:
    worker = await as_user("worker_default")
    subjects = (">", "noetl.>", "$JS.>", "_INBOX_router.>", "_INBOX_worker_gpu.>", "noetl.members.router")
    inboxes = [await worker.subscribe(subject) for subject in subjects]
    await asyncio.sleep(SETTLE_S)
    for subject in ("noetl.members.router", "_INBOX_router.a", "noetl.events.0.x.router"):
        await admin.publish(subject, b"private")
    heard = await asyncio.gather(
        *(asyncio.wait_for(inbox.next(), 0.3) for inbox in inboxes), return_exceptions=True
    )
    assert all(isinstance(h, TimeoutError) for h in heard)


async def test_a_worker_does_its_work(as_user: As, admin: JetStreamBus) -> None:
    worker = await as_user("worker_default")
    delivery = (await asyncio.wait_for((await worker.consume(COMMANDS, "default", 4)).batch(1), 5))[0]
    assert (delivery.subject, delivery.data) == ("noetl.commands.default.x.r1", b"mine")
    await worker.append("noetl.events.0.x.worker", b"done")
    await worker.append("noetl.events.0.x.iteration", b"")
    await worker.append("noetl.events.0.x.worker", b"more")
    await worker.append("noetl.results.x.sha.1", b"chunk")
    await worker.kv_put(topology.WORKERS, "default.w1", b"beat")
    await delivery.ack()
    read = await worker.read(STREAM, ["noetl.events.0.x.*"])
    assert [m.data for m in read] == [b"decided", b"done", b"", b"more"]
    assert [m.data for m in await worker.read(RESULTS, ["noetl.results.x.sha.*"])] == [b"chunk", b"chunk"]
    entry = await worker.kv_get(KEYCHAIN, "db")
    assert entry is not None
    assert entry.value == b"secret"
    await asyncio.sleep(SETTLE_S)
    assert [s for s, _ in (await contents(admin))[COMMANDS]] == ["noetl.commands.gpu.x.r2"]


FORBIDDEN_TO_SERVICES = [
    ("router", "noetl.events.0.x.scheduler"),
    ("router", "noetl.events.0.x.worker"),
    ("router", "noetl.commands.default.x.r9"),
    ("router", f"$JS.API.STREAM.DELETE.{STREAM}"),
    ("router", f"$JS.API.STREAM.PURGE.{STREAM}"),
    ("router", f"$JS.API.DIRECT.GET.KV_{KEYCHAIN}"),
    ("router", f"$JS.API.STREAM.MSG.GET.KV_{KEYCHAIN}"),
    ("router", f"$JS.API.CONSUMER.CREATE.KV_{KEYCHAIN}.mine"),
    ("router", f"$KV.{KEYCHAIN}.db"),
    ("scheduler", "noetl.events.0.x.router"),
    ("scheduler", "noetl.events.0.x.worker"),
    ("scheduler", f"$JS.API.STREAM.DELETE.{COMMANDS}"),
    ("scheduler", f"$JS.API.DIRECT.GET.KV_{KEYCHAIN}"),
    ("scheduler", f"$JS.API.CONSUMER.MSG.NEXT.{COMMANDS}.default"),
    ("scheduler", f"$JS.API.CONSUMER.MSG.NEXT.{topology.REQUESTS}.router"),
    ("scheduler", f"$JS.API.CONSUMER.MSG.NEXT.KV_{KEYCHAIN}.x"),
    ("scheduler", f"$JS.ACK.{topology.REQUESTS}.router.1.1.1.1.0"),
    ("scheduler", "$JS.API.CONSUMER.CREATE.ORDERS.mine"),
    ("scheduler", f"$KV.{topology.POOLS}.pool.etl"),
    ("scheduler", f"$JS.API.CONSUMER.PAUSE.{COMMANDS}.default"),
    ("router", f"$KV.{topology.POOLS}.pool.etl"),
    ("pools", f"$KV.{topology.POOLS}.pool.etl"),
    ("pools", f"$KV.{topology.WORKERS}.default.w1"),
    ("pools", "noetl.events.0.x.router"),
    ("pools", "noetl.events.0.x.worker"),
    ("pools", "noetl.commands.default.x.r9"),
    ("pools", "noetl.stops.default"),
    ("pools", "noetl.requests.execute"),
    ("pools", "noetl.members.router"),
    ("pools", f"$JS.API.CONSUMER.MSG.NEXT.{COMMANDS}.default"),
    ("pools", f"$JS.API.CONSUMER.DELETE.{COMMANDS}.default"),
    ("pools", f"$JS.API.CONSUMER.CREATE.{COMMANDS}.mine"),
    ("pools", f"$JS.API.CONSUMER.PAUSE.{topology.REQUESTS}.router"),
    ("pools", f"$JS.API.STREAM.PURGE.{COMMANDS}"),
    ("pools", f"$JS.API.STREAM.DELETE.{COMMANDS}"),
    ("pools", f"$JS.API.STREAM.MSG.GET.{COMMANDS}"),
    ("pools", f"$JS.API.DIRECT.GET.{STREAM}"),
    ("pools", f"$JS.API.DIRECT.GET.KV_{KEYCHAIN}"),
    ("projector", "noetl.events.0.x.router"),
    ("projector", "noetl.commands.default.x.r9"),
    ("projector", f"$KV.{topology.CURSORS}.router.0"),
    ("projector", f"$JS.API.DIRECT.GET.KV_{KEYCHAIN}"),
    ("projector", f"$JS.API.CONSUMER.CREATE.KV_{KEYCHAIN}.mine"),
    ("projector", f"$JS.API.STREAM.PURGE.{STREAM}"),
]


@pytest.mark.parametrize(("user", "subject"), FORBIDDEN_TO_SERVICES)
async def test_a_service_is_refused(as_user: As, admin: JetStreamBus, user: str, subject: str) -> None:
    before = await contents(admin)
    bus = await as_user(user)
    with pytest.raises(Refused):
        await bus.append(subject, b"{}")
    assert await contents(admin) == before


@pytest.mark.parametrize("user", ["router", "projector", "scheduler", "pools"])
async def test_a_service_cannot_read_the_keychain(as_user: As, user: str) -> None:
    bus = await as_user(user)
    for read in (bus.kv_get(KEYCHAIN, "db"), bus.kv_all(KEYCHAIN)):
        with pytest.raises(Refused):
            await read


async def test_each_service_does_its_own_work(as_user: As) -> None:
    router, scheduler, projector = [await as_user(u) for u in ("router", "scheduler", "projector")]
    await router.append("noetl.events.0.y.router", b"", expected=0)
    await router.kv_put(topology.CURSORS, "router.0", b"1")
    await scheduler.append("noetl.events.0.y.scheduler", b"", expected=0)
    await scheduler.append("noetl.commands.default.y.r1", b"")
    assert await scheduler.kv_all(topology.WORKERS) == {}
    for bus in (router, scheduler, projector):
        follower = bus.follow(STREAM, ["noetl.events.0.>"], 0)
        assert len(await asyncio.wait_for(follower.batch(), 5)) == 3
        await follower.close()


async def test_the_pools_service_says_where_pools_stand_and_stops_their_delivery(
    as_user: As, admin: JetStreamBus
) -> None:
    await admin.kv_put(topology.POOLS, "pool.default", b"wanted")
    await admin.kv_put(topology.WORKERS, "default.w1", b"{}")
    service = await as_user("pools")
    assert (await service.kv_all(topology.POOLS), await service.kv_all(topology.WORKERS)) == (
        {"pool.default": b"wanted"}, {"default.w1": b"{}"}
    )
    await service.kv_put(topology.POOLS, "status.default", b"ready")
    await service.kv_put(topology.POOLS, "leader", b"me", expected=0)
    follower = service.follow(f"KV_{topology.POOLS}", [f"$KV.{topology.POOLS}.pool.*"], 0)
    assert [m.data for m in await asyncio.wait_for(follower.batch(), 5)] == [b"wanted"]
    await follower.close()
    await pool_consumer.pause(service, "default", pool_consumer.FOR_EVER)
    queue = await pool_consumer.look(service, "default")
    assert queue is not None
    assert (queue.pending, queue.in_flight, bool(queue.paused_until)) == (1, 0, True)
    assert await pool_consumer.look(service, "nobody") is None


async def test_a_worker_knows_nothing_of_pools(as_user: As, admin: JetStreamBus) -> None:
    await admin.kv_put(topology.POOLS, "pool.default", b"wanted")
    worker = await as_user("worker_default")
    with pytest.raises(NoetlError):
        await worker.kv_all(topology.POOLS)
    for subject in (f"$KV.{topology.POOLS}.status.default", f"$JS.API.CONSUMER.PAUSE.{COMMANDS}.default"):
        with pytest.raises(Refused):
            await worker.append(subject, b"{}")


async def test_a_scheduler_hears_subjects_of_others_and_not_what_is_private(as_user: As, admin: JetStreamBus) -> None:
    scheduler = await as_user("scheduler")
    everything, orders = await scheduler.subscribe(">"), await scheduler.subscribe("orders.*")
    await asyncio.sleep(SETTLE_S)
    await admin.kv_put(KEYCHAIN, "db", b"secret")
    for subject in ("_INBOX_admin.a", "_INBOX.b", "_INBOX_router.c", "orders.new"):
        await admin.publish(subject, b"x")
    assert (await asyncio.wait_for(orders.message(), 2)).subject == "orders.new"
    heard = [(await asyncio.wait_for(everything.message(), 2)).subject]
    while heard[-1] != "orders.new":
        heard.append((await asyncio.wait_for(everything.message(), 2)).subject)
    private = ("_INBOX.", "_INBOX_admin.", "_INBOX_router.", "$KV", "$JS")
    assert [subject for subject in heard if subject.startswith(private)] == []


async def test_wrong_credentials_are_refused_at_once(nats_server: NatsServer) -> None:
    with pytest.raises(Refused, match="user or password"):
        await asyncio.wait_for(connect(nats_server.url, user="router", password="guess"), 3)


async def test_nobody_gets_in_without_credentials(nats_server: NatsServer) -> None:
    with pytest.raises(Refused):
        await asyncio.wait_for(connect(nats_server.url), 3)
