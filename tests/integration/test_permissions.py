"""Ownership is enforced by the broker: what a worker may not do has no effect, by whatever way it is tried."""

import asyncio

import pytest

from shared.bus import topology
from shared.bus.jetstream import JetStreamBus
from shared.bus.topology import COMMANDS, KEYCHAIN, RESULTS, events_stream
from shared.errors import NoetlError, Refused
from shared.events import subjects
from tests.support.users import SETTLE_S, As, contents, shoot

STREAM = events_stream(0)

FORBIDDEN_TO_WORKERS = [
    "noetl.events.0.x.router",
    "noetl.events.0.x.scheduler",
    "noetl.events.0.x.control",
    "noetl.events.0.x.y.worker",
    "noetl.events.0.x.worker",
    "noetl.events.0.x.iteration",
    "noetl.events.0.x.waiting",
    "noetl.events.0.x.worker.gpu",
    "noetl.events.0.x.iteration.gpu",
    "noetl.events.0.x.waiting.gpu",
    "noetl.events.0.x.router.default",
    "noetl.events.0.x.worker.default.gpu",
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
    f"$JS.API.STREAM.MSG.GET.{COMMANDS}",
    f"$JS.API.STREAM.MSG.GET.{topology.REQUESTS}",
    f"$JS.API.STREAM.MSG.GET.KV_{topology.WORKERS}",
    f"$JS.API.STREAM.MSG.GET.KV_{topology.CTX}",
    f"$JS.API.STREAM.MSG.DELETE.{COMMANDS}",
    "noetl.ended.default",
    "noetl.closed.POOL_default",
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
    f"$JS.API.STREAM.INFO.{STREAM}",
    f"$JS.API.STREAM.INFO.KV_{KEYCHAIN}",
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
        (f"$JS.API.STREAM.MSG.GET.{STREAM}", b'{"seq": 1}'),
        ("noetl.events.0.x.worker.default", b"progress"),
        ("noetl.results.y.sha.0", b"chunk"),
        (f"$JS.ACK.{COMMANDS}.default.1.1.1.1.0", b"+NXT"),
        (f"$JS.API.STREAM.INFO.{topology.TIMEKEEPER}", b""),
        (subjects.TIME, b""),
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
    "subject", ["noetl.events.0.x.worker.default", "noetl.results.z.sha.0", "$KV.noetl_workers.default.w1"]
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
    await worker.append("noetl.events.0.x.worker.default", b"done")
    await worker.append("noetl.events.0.x.iteration.default", b"")
    await worker.append("noetl.events.0.x.worker.default", b"more")
    await worker.append("noetl.results.x.sha.1", b"chunk")
    await worker.kv_put(topology.WORKERS, "default.w1", b"beat")
    await delivery.ack()
    read = await worker.read(STREAM, ["noetl.events.0.x.>"])
    assert [m.data for m in read] == [b"decided", b"done", b"", b"more"]
    assert [m.data for m in await worker.read(RESULTS, ["noetl.results.x.sha.*"])] == [b"chunk", b"chunk"]
    last = await worker.requests.of_leader(STREAM, {"last_by_subj": "noetl.events.0.x.worker.default"})
    assert last["seq"] == read[-1].seq
    entry = await worker.kv_get(KEYCHAIN, "db")
    assert entry is not None
    assert entry.value == b"secret"
    await asyncio.sleep(SETTLE_S)
    assert [s for s, _ in (await contents(admin))[COMMANDS]] == ["noetl.commands.gpu.x.r2"]


async def test_what_workers_say_of_their_claims_stays_inside_their_pool(as_user: As, admin: JetStreamBus) -> None:
    """A word on the subject of claims reaches the pool's own workers, and nobody else."""
    one, two, other = await as_user("worker_default"), await as_user("worker_default"), await as_user("worker_gpu")
    heard = [await bus.subscribe("noetl.claims.default") for bus in (two, admin)]
    foreign = await other.subscribe("noetl.claims.gpu")
    await asyncio.sleep(SETTLE_S)
    await one.publish("noetl.claims.default", b"mine")
    await one.publish("noetl.claims.gpu", b"not mine to say")
    async with asyncio.timeout(30):
        assert await heard[0].next() == b"mine"
    for inbox in (heard[1], foreign):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SETTLE_S):
                await inbox.next()
