"""Triggers at work: filter, mapping, dedupe key and concurrency, from a stream and from a core subject."""

import asyncio
import json

import msgspec

from services.scheduler.trigger_runner import MAX_WAITING
from shared.bus import topology, trigger_consumer
from shared.events import subjects
from shared.runtime.stores import schedules as store_schedules
from tests.unit.services.scheduler.world import World, live

START = "2026-01-01T00:00Z"


def trigger(*, stream: bool = True, more: str = "") -> str:
    return f"""\
apiVersion: noetl.io/v2
kind: Trigger
metadata: {{name: orders}}
spec:
  subject: orders.>
  {"stream: ORDERS" if stream else ""}
  playbook: {{path: shop/order, version: "2"}}
{more}"""


async def open_(world: World, more: str = "", *, stream: bool = True) -> None:
    world.start()
    await world.apply(trigger(stream=stream, more=more))
    if stream:
        await trigger_consumer.ensure(world.bus, "orders", "ORDERS", "orders.>")
    await asyncio.sleep(2)


async def order(world: World, number: int, subject: str = "orders.new", **fields: object) -> None:
    await world.bus.append(subject, json.dumps({"id": number, **fields}).encode())
    await asyncio.sleep(0.1)


def test_a_message_starts_an_execution_with_the_mapped_payload() -> None:
    async def story(world: World) -> None:
        await open_(world, '  mapping: {order: "{{ message.data.id }}", from: "{{ message.subject }}", fixed: 1}\n')
        await order(world, 7)
        (request,) = await world.requests()
        assert request == {"path": "shop/order", "version": "2", "execution_id": request["execution_id"],
                       "by": "trigger orders",
                           "payload": {"order": 7, "from": "orders.new", "fixed": 1}}

    live(START, story)


def test_without_a_mapping_the_playbook_gets_the_message() -> None:
    async def story(world: World) -> None:
        await open_(world)
        await world.bus.append("orders.new", b"just text", headers={"kind": "memo"})
        await asyncio.sleep(0.1)
        (request,) = await world.requests()
        message = {"subject": "orders.new", "data": "just text", "headers": {"kind": "memo"}}
        assert request["payload"] == {"message": message}

    live(START, story)


def test_a_message_that_fails_the_filter_is_ignored() -> None:
    async def story(world: World) -> None:
        await open_(world, '  filter: "{{ message.data.total > 10 }}"\n')
        await order(world, 1, total=5)
        await order(world, 2, total=15)
        assert [request["payload"]["message"]["data"]["id"] for request in await world.requests()] == [2]
        assert await world.bus.read("ORDERS", [">"]) == []  # both are acknowledged

    live(START, story)


def test_one_dedupe_key_is_one_execution() -> None:
    async def story(world: World) -> None:
        await open_(world, '  dedupe: "{{ message.data.id }}"\n')
        for number in (1, 2, 1, 1):
            await order(world, number)
        assert len(set(await world.ids())) == 2

    live(START, story)


def test_without_a_dedupe_key_each_message_is_one_execution_however_often_it_is_delivered() -> None:
    async def story(world: World) -> None:
        await open_(world)
        await order(world, 1)
        await order(world, 1)
        assert len(set(await world.ids())) == 2
        await world.kill()
        await world.bus.append("orders.new", b"{}")
        world.start("two")
        await asyncio.sleep(40)
        assert len(set(await world.ids())) == 3

    live(START, story)


def test_what_cannot_be_mapped_is_a_dead_letter() -> None:
    async def story(world: World) -> None:
        await open_(world, '  mapping: "{{ message.data.order }}"\n')
        await order(world, 1, order="text")
        await order(world, 2, order={"a": 1})
        await world.bus.append("orders.new", b"\xff\xfe")
        await asyncio.sleep(0.1)
        assert [request["payload"] for request in await world.requests()] == [{"a": 1}]
        stored = await world.bus.read(topology.DEAD, [subjects.dead("triggers", ">")])
        buried = [msgspec.json.decode(each.data) for each in stored]
        assert [(each["name"], each["subject"]) for each in buried] == [("orders", "orders.new")] * 2
        assert "not a mapping" in buried[0]["reason"]
        assert "UTF-8" in buried[1]["reason"]
        assert await world.bus.read("ORDERS", [">"]) == []

    live(START, story)


def test_with_queue_a_message_waits_unacknowledged_for_a_free_place() -> None:
    async def story(world: World) -> None:
        await open_(world, "  concurrency: {max: 2, when_full: queue}\n")
        for number in range(4):
            await order(world, number)
        await asyncio.sleep(90)  # three leases long
        first, second = await world.ids()
        assert len(await world.bus.read("ORDERS", [">"])) == 2
        for each in (first, second):
            await world.begun(each)
        await world.ended(first)
        await asyncio.sleep(3)
        assert len(set(await world.ids())) == 3
        await world.ended(second)
        await asyncio.sleep(3)
        assert len(set(await world.ids())) == 4
        assert await world.bus.read("ORDERS", [">"]) == []

    live(START, story)


def test_with_skip_a_message_over_the_limit_starts_nothing() -> None:
    async def story(world: World) -> None:
        await open_(world, "  concurrency: {max: 1, when_full: skip}\n")
        await order(world, 1)
        await order(world, 2)
        assert len(await world.ids()) == 1
        assert await world.bus.read("ORDERS", [">"]) == []
        await world.begun((await world.ids())[0])
        await world.ended((await world.ids())[0])
        await asyncio.sleep(1)
        await order(world, 3)
        assert len(await world.ids()) == 2

    live(START, story)


def test_the_limit_holds_over_a_change_of_the_scheduler() -> None:
    async def story(world: World) -> None:
        await open_(world, "  concurrency: {max: 1}\n")
        await order(world, 1)
        await order(world, 2)
        await world.stop()
        world.start("two")
        await asyncio.sleep(60)
        assert len(await world.ids()) == 1
        holders, _ = await store_schedules.read_state(world.bus, "Trigger", "orders", store_schedules.Holders)
        assert list(holders.running) == await world.ids()

    live(START, story)


def test_a_core_subject_starts_executions_too() -> None:
    async def story(world: World) -> None:
        world.broker.lose("ORDERS")  # nobody stores it
        await open_(world, '  dedupe: "{{ message.data.id }}"\n', stream=False)
        for number in (1, 2, 1):
            await world.bus.publish("orders.new", json.dumps({"id": number}).encode())
        await asyncio.sleep(1)
        assert len(await world.ids()) == 3
        assert len(set(await world.ids())) == 2

    live(START, story)


def test_core_messages_that_wait_are_bounded() -> None:
    async def story(world: World) -> None:
        world.broker.lose("ORDERS")
        await open_(world, "  concurrency: {max: 1}\n", stream=False)
        for number in range(MAX_WAITING + 50):
            await world.bus.publish("orders.new", b"%d" % number)
        await asyncio.sleep(1)
        reactor = next(task for task in asyncio.all_tasks() if task.get_name() == "trigger-orders")
        assert len(await world.ids()) == 1
        assert not reactor.done()

    live(START, story)


def test_a_changed_trigger_works_as_it_says_now() -> None:
    async def story(world: World) -> None:
        await open_(world)
        await order(world, 1)
        await world.apply(trigger(more="  mapping: {changed: 1}\n"))
        await asyncio.sleep(2)
        await order(world, 2)
        assert [list(request["payload"]) for request in await world.requests()] == [["message"], ["changed"]]
        await store_schedules.delete(world.bus, "Trigger", "orders")
        await asyncio.sleep(2)
        await order(world, 3)
        assert len(await world.ids()) == 2

    live(START, story)
