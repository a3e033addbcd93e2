"""The durable consumer of a trigger on a real server: what it delivers, and how it changes with the trigger."""

import asyncio

import pytest

from services.cli.playbooks import automation
from shared.bus import trigger_consumer
from shared.bus.codes import NotFound
from shared.bus.jetstream import JetStreamBus
from shared.dsl.documents.compile import compile_document
from shared.dsl.documents.triggers import Trigger
from shared.errors import Refused


async def stream(admin: JetStreamBus, name: str, subject: str, retention: str = "limits") -> None:
    config = {"name": name, "subjects": [subject], "retention": retention}
    await admin.requests.api(f"STREAM.CREATE.{name}", config)


async def taken(admin: JetStreamBus, name: str, count: int) -> list[str]:
    consumer = await admin.consume(name, trigger_consumer.durable("t"), 10)
    found: list[str] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            for delivery in await consumer.batch(10):
                found.append(delivery.subject)
                await delivery.ack()
    await consumer.close()
    return found


def document(subject: str, stream: str) -> tuple[Trigger, str]:
    source = f"""\
apiVersion: noetl.io/v2
kind: Trigger
metadata: {{name: t}}
spec: {{subject: "{subject}", stream: {stream}, playbook: {{path: p}}}}
"""
    found = compile_document(source, kind="Trigger").document
    assert isinstance(found, Trigger)
    return found, source


async def test_only_what_comes_later_is_delivered(admin: JetStreamBus) -> None:
    await stream(admin, "ORDERS", "orders.>")
    await admin.append("orders.before", b"")
    await trigger_consumer.ensure(admin, "t", "ORDERS", "orders.*")
    await admin.append("orders.after", b"1")
    await trigger_consumer.ensure(admin, "t", "ORDERS", "orders.*")  # again: nothing changes
    assert await taken(admin, "ORDERS", 1) == ["orders.after"]


async def test_all_of_a_work_queue_is_delivered(admin: JetStreamBus) -> None:
    await stream(admin, "JOBS", "jobs.>", "workqueue")
    await admin.append("jobs.before", b"1")
    await trigger_consumer.ensure(admin, "t", "JOBS", "jobs.>")
    assert await taken(admin, "JOBS", 1) == ["jobs.before"]


async def test_a_stream_that_cannot_give_the_subject_is_refused(admin: JetStreamBus) -> None:
    with pytest.raises(Refused, match="there is no stream 'ORDERS'"):
        await trigger_consumer.ensure(admin, "t", "ORDERS", "orders.*")
    await stream(admin, "ORDERS", "orders.>")
    with pytest.raises(Refused, match=r"takes orders\.>, not 'mail\.\*'"):
        await trigger_consumer.ensure(admin, "t", "ORDERS", "mail.*")


async def test_a_changed_trigger_changes_its_consumer(admin: JetStreamBus) -> None:
    await stream(admin, "ORDERS", "orders.>")
    await stream(admin, "MAIL", "mail.>")
    assert await automation.store(admin, *document("orders.new", "ORDERS")) == "created"
    assert await automation.store(admin, *document("orders.new", "ORDERS")) == "unchanged"
    assert await automation.store(admin, *document("orders.old", "ORDERS")) == "changed"
    await admin.append("orders.new", b"1")
    await admin.append("orders.old", b"1")
    assert await taken(admin, "ORDERS", 1) == ["orders.old"]
    assert await automation.store(admin, *document("mail.>", "MAIL")) == "changed"
    with pytest.raises(NotFound):
        await admin.requests.api(f"CONSUMER.INFO.ORDERS.{trigger_consumer.durable('t')}")
    await trigger_consumer.remove(admin, "t", "ORDERS")  # gone already
