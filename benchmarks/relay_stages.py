"""The relay's three stages and its streams. An execution id says what the execution is:
`<run>-<steps>-<items>-<i>`; more than one item makes it a loop of that many iterations."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy, StorageType, StreamConfig
from nats.js.errors import NotFoundError

from benchmarks.wire import Server, Stored, Wire

COMMANDS = "BENCH_COMMANDS"
POOL = "bench.commands.pool"
EXPECTED = "Nats-Expected-Last-Subject-Sequence"
MAX_PENDING = 20_000
NOW = "2026-01-01T00:00:00.000000Z"

encode, decode = msgspec.json.encode, msgspec.json.decode


def events_stream(partition: int) -> str:
    return f"BENCH_EVENTS_{partition}"


def size_of(execution_id: str) -> tuple[int, int]:
    _, steps, items, _ = execution_id.split("-")
    return int(steps), int(items)


def step_record(eid: str, n: int) -> bytes:
    """What a router writes when step n-1 is done and step n follows."""
    shared = {"execution_id": eid, "ts": NOW}
    return encode(
        [
            {"event_type": "next.selected", **shared, "payload": {"step": f"s{n}"}},
            {"event_type": "token.created", **shared, "payload": {"args": {}}},
            {"event_type": "step.scheduled", **shared, "step": f"s{n}", "ctx": {"a": 1}},
        ]
    )


async def router(server: Server, streams: int) -> None:
    wire = await Wire.open(server)
    left: dict[str, int] = {}
    previous: dict[str, Stored] = {}

    async def react(msg: Msg) -> Sequence[Stored]:
        base = msg.subject[: -len("worker")]
        eid = base.split(".")[3]
        if eid in previous:
            expected = await previous[eid]  # the report can overtake our own append's answer
        else:
            left[eid], expected = size_of(eid)[0], decode(msg.data)[0]["cause"]
        left[eid] -= 1
        if left[eid]:
            record = step_record(eid, size_of(eid)[0] - left[eid])
        else:
            record = encode([{"event_type": "workflow.finished", "execution_id": eid, "ts": NOW}])
        previous[eid] = await wire.append(f"{base}router", record, {EXPECTED: str(expected)})
        return (previous[eid],)

    await asyncio.gather(*(wire.serve(events_stream(p), "router", react) for p in range(streams)))


async def scheduler(server: Server, streams: int) -> None:
    wire = await Wire.open(server)
    left: dict[str, int] = {}

    async def react(msg: Msg) -> Sequence[Stored]:
        base, _, writer = msg.subject.rpartition(".")
        eid = base.split(".")[3]
        if writer == "router":
            last = decode(msg.data)[-1]
            return await issue(base, eid, last, msg) if last["event_type"] == "step.scheduled" else ()
        left[eid] -= 1
        if left[eid]:
            return ()
        return (await wire.append(f"{base}.scheduler", encode([{"event_type": "loop.done", "ts": NOW}])),)

    async def issue(base: str, eid: str, event: dict[str, object], msg: Msg) -> Sequence[Stored]:
        left[eid] = size_of(eid)[1]
        command = {
            "base": base,
            "writer": "worker" if left[eid] == 1 else "iteration",
            "execution_id": eid,
            "step": event["step"],
            "ctx": event["ctx"],
            "cause": msg.metadata.sequence.stream,
        }
        stored = []
        for index in range(left[eid]):
            command["index"] = index
            once = {"Nats-Msg-Id": f"{eid}/{event['step']}/{index}"}
            stored.append(await wire.append(POOL, encode(command), once))
        return stored

    await asyncio.gather(*(wire.serve(events_stream(p), "scheduler", react) for p in range(streams)))


async def worker(server: Server, _streams: int) -> None:
    wire = await Wire.open(server)

    async def react(msg: Msg) -> Sequence[Stored]:
        command = decode(msg.data)
        step, index = command["step"], command["index"]
        record = [
            {"event_type": "task.started", "cause": command["cause"], "step": step, "ts": NOW},
            {"event_type": "task.done", "ts": NOW, "outcome": {"status": "ok", "result": {"x": 1}}},
            {"event_type": "step.done", "ts": NOW, "step": step, "index": index, "payload": {}},
        ]
        return (await wire.append(f"{command['base']}.{command['writer']}", encode(record)),)

    await wire.serve(COMMANDS, "pool", react)


ROLES: dict[str, Callable[[Server, int], Awaitable[None]]] = {
    "router": router,
    "scheduler": scheduler,
    "worker": worker,
}


async def prepare(server: Server, streams: int, commands: str) -> None:
    await drop(server, streams)
    nc = await server.connect()
    js = nc.jetstream()
    queue, storage = RetentionPolicy.WORK_QUEUE, StorageType(commands)
    await js.add_stream(StreamConfig(name=COMMANDS, subjects=[POOL], retention=queue, storage=storage))
    consumers = [("pool", COMMANDS, [POOL])]
    for p in range(streams):
        name, of = events_stream(p), f"bench.events.{p}.*"
        await js.add_stream(StreamConfig(name=name, subjects=[f"{of}.*"], storage=StorageType.FILE))
        consumers.append(("router", name, [f"{of}.worker"]))
        consumers.append(("scheduler", name, [f"{of}.router", f"{of}.iteration"]))
    for durable, stream, filters in consumers:
        explicit = ConsumerConfig(
            durable_name=durable,
            filter_subjects=filters,
            ack_policy=AckPolicy.EXPLICIT,
            max_ack_pending=MAX_PENDING,
        )
        await js.add_consumer(stream, explicit)
    await nc.close()


async def drop(server: Server, streams: int) -> None:
    nc = await server.connect()
    for name in (COMMANDS, *map(events_stream, range(streams))):
        try:
            await nc.jetstream().delete_stream(name)
        except NotFoundError:
            continue
    await nc.close()
