"""Ownership is enforced by the broker: what a service may not do has no effect."""

import asyncio
import time

import msgspec
import pytest

from shared.bus import pool_consumer, topology
from shared.bus.jetstream import JetStreamBus, connect
from shared.bus.topology import COMMANDS, KEYCHAIN, REQUESTS, RESULTS, events_stream
from shared.errors import NoetlError, Refused
from shared.events import subjects
from shared.runtime.embedded.nats_server import NatsServer
from tests.support.users import SETTLE_S, As, contents

STREAM = events_stream(0)

FORBIDDEN_TO_SERVICES = [
    ("router", "noetl.events.0.x.scheduler"),
    ("router", "noetl.events.0.x.worker"),
    ("router", "noetl.events.0.x.worker.default"),
    ("router", "noetl.commands.default.x.r9"),
    ("router", "noetl.ends.completed.x.p"),
    ("router", "noetl.requests.child"),
    ("router", "noetl.demand.s1"),
    ("pools", "noetl.demand.s1"),
    ("projector", "noetl.demand.s1"),
    ("router", "noetl.requests.derived"),
    ("scheduler", "noetl.requests.execute"),
    ("pools", "noetl.ends.completed.x.p"),
    ("projector", "noetl.ends.completed.x.p"),
    ("pools", "noetl.api.execute"),
    ("projector", "noetl.api.execute"),
    ("router", f"$JS.API.STREAM.DELETE.{STREAM}"),
    ("router", f"$JS.API.STREAM.PURGE.{STREAM}"),
    ("router", f"$JS.API.DIRECT.GET.KV_{KEYCHAIN}"),
    ("router", f"$JS.API.STREAM.MSG.GET.KV_{KEYCHAIN}"),
    ("scheduler", f"$JS.API.STREAM.MSG.GET.KV_{KEYCHAIN}"),
    ("projector", f"$JS.API.STREAM.MSG.GET.KV_{KEYCHAIN}"),
    ("projector", f"$JS.API.STREAM.PURGE.{STREAM}"),
    ("projector", f"$JS.API.STREAM.PURGE.{REQUESTS}"),
    ("projector", f"$JS.API.STREAM.DELETE.{RESULTS}"),
    ("projector", f"$JS.API.STREAM.UPDATE.{RESULTS}"),
    ("projector", f"$KV.{topology.SETTINGS}.retention"),
    ("router", f"$JS.API.STREAM.PURGE.{RESULTS}"),
    ("router", f"$KV.{topology.SETTINGS}.retention"),
    ("pools", f"$JS.API.STREAM.MSG.GET.{STREAM}"),
    ("router", f"$JS.API.CONSUMER.CREATE.KV_{KEYCHAIN}.mine"),
    ("router", f"$KV.{KEYCHAIN}.db"),
    ("scheduler", "noetl.events.0.x.router"),
    ("scheduler", "noetl.events.0.x.worker"),
    ("scheduler", "noetl.events.0.x.iteration.default"),
    ("scheduler", f"$JS.API.STREAM.DELETE.{STREAM}"),
    ("scheduler", f"$JS.API.STREAM.DELETE.{REQUESTS}"),
    ("router", f"$JS.API.STREAM.DELETE.{COMMANDS}"),
    ("router", f"$JS.API.CONSUMER.CREATE.{REQUESTS}.other"),
    ("router", f"$JS.API.CONSUMER.DELETE.{REQUESTS}.router"),
    ("scheduler", f"$JS.API.STREAM.PURGE.{COMMANDS}"),
    ("scheduler", f"$JS.API.STREAM.MSG.DELETE.{STREAM}"),
    ("scheduler", f"$JS.API.STREAM.MSG.DELETE.{RESULTS}"),
    ("scheduler", f"$JS.API.STREAM.MSG.GET.KV_{KEYCHAIN}"),
    ("scheduler", "noetl.ended.default"),
    ("scheduler", "noetl.closed.POOL_default"),
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
    ("pools", "noetl.events.0.x.worker.default"),
    ("pools", "noetl.commands.default.x.r9"),
    ("pools", "noetl.stops.default"),
    ("pools", "noetl.closed.POOL_default"),
    ("pools", f"$JS.API.STREAM.MSG.DELETE.{COMMANDS}"),
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
    ("projector", f"$JS.API.CONSUMER.CREATE.{STREAM}.mine"),
    ("projector", f"$JS.API.STREAM.MSG.GET.{STREAM}"),
    ("projector", "noetl.members.projector"),
    ("pools", f"$JS.API.CONSUMER.CREATE.KV_{topology.POOLS}.mine"),
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


@pytest.mark.parametrize("user", ["router", "scheduler", "projector", "pools", "worker_default", "admin"])
async def test_everybody_may_ask_what_time_it_is(as_user: As, user: str) -> None:
    before = time.time()
    told = await (await as_user(user)).time()
    assert before - 1 < told < time.time() + 1


async def test_each_service_does_its_own_work(as_user: As) -> None:
    router, scheduler, projector = [await as_user(u) for u in ("router", "scheduler", "projector")]
    await router.append("noetl.events.0.y.router", b"", expected=0)
    await router.kv_put(topology.CURSORS, "router.0", b"1")
    await scheduler.append("noetl.events.0.y.scheduler", b"", expected=0)
    await scheduler.append("noetl.commands.default.y.r1", b"")
    await scheduler.append("noetl.ends.completed.y.p", b"", expected=0)
    await router.append("noetl.requests.execute", b"{}")
    assert await scheduler.kv_all(topology.WORKERS) == {}
    for bus in (router, scheduler, projector):
        follower = bus.follow(STREAM, ["noetl.events.0.>"], 0, lazy=bus is projector)
        heard = 0
        async with asyncio.timeout(30):
            while heard < 3:  # in one batch or in several
                heard += len(await follower.batch())
        assert heard == 3
        await follower.close()


async def test_a_scheduler_hears_that_a_connection_of_a_worker_is_over_and_a_worker_does_not(
    as_user: As, nats_server: NatsServer
) -> None:
    scheduler, other = await as_user("scheduler"), await as_user("worker_gpu")
    heard, unheard = await scheduler.subscribe("noetl.closed.*"), await other.subscribe("noetl.closed.*")
    worker = await connect(nats_server.url_for("worker_default"), name="noetl-worker/default.w1")
    await asyncio.sleep(SETTLE_S)
    await worker.close()
    async with asyncio.timeout(30):
        message = await heard.message()
        while (client := msgspec.json.decode(message.data)["client"]).get("name") != "noetl-worker/default.w1":
            message = await heard.message()
    assert (message.subject, client["acc"]) == ("noetl.closed.POOL_default", "POOL_default")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(SETTLE_S):
            await unheard.next()


async def test_the_pools_service_tells_schedulers_which_worker_ended(as_user: As) -> None:
    scheduler, pools = await as_user("scheduler"), await as_user("pools")
    heard = await scheduler.subscribe("noetl.ended.*")
    await asyncio.sleep(SETTLE_S)
    await pools.publish("noetl.ended.default", b"default.w1")
    async with asyncio.timeout(30):
        assert await heard.next() == b"default.w1"


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
    heard = await service.subscribe(f"$KV.{topology.POOLS}.pool.*")
    await asyncio.sleep(SETTLE_S)
    await admin.kv_put(topology.POOLS, "pool.default", b"wanted anew")
    assert await asyncio.wait_for(heard.next(), 5) == b"wanted anew"
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


async def test_what_a_scheduler_holds_back_is_heard_by_the_pools_service(as_user: As) -> None:
    pools, scheduler = await as_user("pools"), await as_user("scheduler")
    inbox = await pools.subscribe(subjects.demand("*"))
    await asyncio.sleep(SETTLE_S)
    await scheduler.publish(subjects.demand("s1"), b"held")
    async with asyncio.timeout(30):
        assert (await inbox.message()).subject == "noetl.demand.s1"
    await inbox.close()
