"""A client that may start executions takes the ids that others will have: of a child, of a schedule's next times, of a
trigger's message. The ids follow from what anyone may know, and none of the others waits in vain or is left out."""

import asyncio
import json
import time

import msgspec

from shared.bus.jetstream import JetStreamBus
from shared.engine.automation import schedules
from shared.events import subjects
from shared.events.fields import Parent
from shared.events.request import Request, derive_id
from tests.support.attacked import as_user, ctl, letters, register, start, unharmed
from tests.support.pool_ctl import Ctl
from tests.support.waiting import wait_until

__all__ = ["ctl", "unharmed"]
SOON_S = 30.0
PARENT = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: parent, path: attacked/parent}
workflow:
  - step: start
    tool: {kind: signal, signal: go}
    next: {arcs: [{step: call}]}
  - step: call
    tool: {name: child, kind: playbook, path: attacked/plain}
"""
SCHEDULE = """apiVersion: noetl.io/v2
kind: Schedule
metadata: {name: every2}
spec:
  playbook: {path: attacked/plain}
  every: 2s
"""
TRIGGER = """apiVersion: noetl.io/v2
kind: Trigger
metadata: {name: keyed}
spec:
  playbook: {path: attacked/plain}
  subject: keyed.new
  stream: KEYED
  dedupe: "{{ message.data.id }}"
  mapping: {id: "{{ message.data.id }}"}
"""


def waiting_parent(ctl: Ctl) -> tuple[str, str]:
    """And the id that its child will have."""
    register(ctl, "parent", PARENT)
    parent = start(ctl, "attacked/parent")
    wait_until(lambda: bool(ctl.json("why", parent)["reasons"]), "it waits", SOON_S)
    return parent, derive_id("child", f"{parent}/call:1/child/1")


def ask(ctl: Ctl, subject: str, *requests: Request, key: str = "") -> list[str]:
    async def attack(bus: JetStreamBus) -> list[str]:
        headers = {"Nats-Msg-Id": key} if key else None
        return [f"NOETL_REQUESTS/{await bus.append(subject, msgspec.json.encode(request), headers=headers)}"
                for request in requests]

    return as_user(ctl, "admin", attack)


def is_buried(ctl: Ctl, place: str, why: str) -> None:
    wait_until(lambda: [each for each in letters(ctl, "requests") if each["place"] == place and why in each["reason"]],
               f"a letter of {place}", SOON_S)


def test_the_id_of_a_child_cannot_be_asked_for(ctl: Ctl) -> None:
    parent, child = waiting_parent(ctl)
    (place,) = ask(ctl, subjects.EXECUTE, Request("attacked/plain", execution_id=child))
    is_buried(ctl, place, "the engine's own")
    assert ctl("signal", parent, "go")[0] == 0
    ctl.completed(parent)
    assert ctl.json("describe", child)["parent"]["execution_id"] == parent


def test_the_message_id_of_a_childs_request_cannot_be_taken(ctl: Ctl) -> None:
    """The broker drops the second message of an id, whoever wrote the first and wherever."""
    parent, child = waiting_parent(ctl)
    ask(ctl, subjects.EXECUTE, Request("attacked/plain"), key=child)
    assert ctl("signal", parent, "go")[0] == 0
    ctl.completed(parent)


def test_a_parent_whose_childs_id_is_taken_all_the_same_is_told(ctl: Ctl) -> None:
    """By whoever may do everything, or from before ids had their own space."""
    parent, child = waiting_parent(ctl)
    ask(ctl, subjects.DERIVED, Request("attacked/plain", execution_id=child))
    ctl.completed(child)
    assert ctl("signal", parent, "go")[0] == 0
    wait_until(lambda: ctl.status(parent), "it ends", SOON_S, so=lambda status: status == "failed")
    assert f"{child} is another execution" in json.dumps(ctl.json("describe", parent))
    assert any(f"{child} is another execution" in each["reason"] for each in letters(ctl, "requests"))


def test_a_childs_request_that_comes_twice_is_the_same(ctl: Ctl) -> None:
    parent, child = waiting_parent(ctl)
    assert ctl("signal", parent, "go")[0] == 0
    ctl.completed(parent)
    before = letters(ctl, "requests")
    again = Request("attacked/plain", execution_id=child, parent=Parent(parent, "call:1", "child/1"))
    ask(ctl, subjects.CHILD, again, again)
    time.sleep(1.0)
    assert letters(ctl, "requests") == before
    assert ctl.status(parent) == "completed"


def test_the_times_of_a_schedule_cannot_be_taken(ctl: Ctl) -> None:
    file = ctl.folder / "every2.yaml"
    file.write_text(SCHEDULE)
    now = int(time.time()) // 2 * 2
    times = range(now - 2, now + 40, 2)
    ask(ctl, subjects.EXECUTE, *(
        Request("attacked/plain", execution_id=schedules.execution_id("every2", at), by="mallory") for at in times))
    assert ctl("schedule", "apply", "-f", str(file))[0] == 0

    def fired() -> list[str]:
        found = (schedules.execution_id("every2", at) for at in times)
        return [each for each in found if ctl("get", each)[0] == 0]

    wait_until(fired, "a time has come", SOON_S, so=lambda found: len(found) >= 2)
    assert all(ctl.json("describe", each)["by"] == "schedule every2" for each in fired())
    assert ctl("schedule", "delete", "every2")[0] == 0


def test_the_message_of_a_trigger_cannot_be_taken(ctl: Ctl) -> None:
    taken = derive_id("trigger", "keyed", "key", "7")

    async def make(bus: JetStreamBus) -> None:
        await bus.requests.api("STREAM.CREATE.KEYED", {"name": "KEYED", "subjects": ["keyed.>"]})

    async def say(bus: JetStreamBus) -> None:
        await bus.append("keyed.new", b'{"id": 7}')
        await asyncio.sleep(0.1)
        await bus.append("keyed.new", b'{"id": 7}')

    as_user(ctl, "admin", make)
    file = ctl.folder / "keyed.yaml"
    file.write_text(TRIGGER)
    ask(ctl, subjects.EXECUTE, Request("attacked/plain", execution_id=taken, by="mallory"))
    assert ctl("trigger", "apply", "-f", str(file))[0] == 0
    as_user(ctl, "admin", say)
    ctl.completed(taken)
    assert ctl.json("describe", taken)["by"] == "trigger keyed"
    assert not [each for each in letters(ctl, "requests") if "another execution" in each["reason"] and taken in
                each["reason"]]
