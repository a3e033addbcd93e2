"""Messages of triggers come from anyone: each that can start nothing is one letter, and those after it fire."""

import asyncio

import msgspec
import pytest

from shared.bus.jetstream import JetStreamBus
from tests.support.attacked import as_user, ctl, letters, told, unharmed
from tests.support.pool_ctl import Ctl
from tests.support.waiting import wait_until

__all__ = ["ctl", "unharmed"]
TRIGGER = """apiVersion: noetl.io/v2
kind: Trigger
metadata: {{name: {name}}}
spec:
  playbook: {{path: attacked/plain}}
  subject: {name}.new
  {stream}
  mapping: {{id: "{{{{ message.data.id }}}}", text: "{{{{ message.data.text }}}}"}}
"""
MESSAGES = (
    b"",
    b"\xff\xfe",
    b'{"id":"\xff"}',
    b"\x01" * 900_000,
    b"{" * 10_000,
    b"[" * 100_000 + b"]" * 100_000,
    b'{"id":' + b"[" * 100_000 + b"]" * 100_000 + b',"text":""}',
    b"[]",
    msgspec.json.encode({"id": 1}),
    msgspec.json.encode({"id": 1, "text": "x" * 900_000}),
    msgspec.json.encode({"id": 1, "text": "\x01" * 140_000}),
)


@pytest.mark.parametrize("stream", ["ORDERS", ""])
def test_what_comes_after_a_bad_message_fires(ctl: Ctl, stream: str) -> None:
    name = "queued" if stream else "core"

    async def make(bus: JetStreamBus) -> None:
        if stream:
            await bus.requests.api(f"STREAM.CREATE.{stream}", {"name": stream, "subjects": [f"{name}.>"]})

    as_user(ctl, "admin", make)
    file = ctl.folder / f"{name}.yaml"
    file.write_text(TRIGGER.format(name=name, stream=f"stream: {stream}" if stream else ""))
    assert ctl("trigger", "apply", "-f", str(file))[0] == 0
    wait_until(lambda: ctl.json("trigger", "list") != [], "the trigger is there")

    async def attack(bus: JetStreamBus) -> None:
        for number, data in enumerate((*MESSAGES, *MESSAGES)):
            await bus.publish(f"{name}.new", data)
            await bus.publish(f"{name}.new", msgspec.json.encode({"id": number, "text": "good"}))
            await bus.connection.flush()
            await asyncio.sleep(0.05)

    if not stream:
        _warm(ctl, name)
    as_user(ctl, "admin", attack)
    wanted = 2 * len(MESSAGES)
    wait_until(lambda: _fired(ctl, name), f"{wanted} have fired", 30.0, so=lambda count: count >= wanted)
    wait_until(lambda: len(_letters(ctl, name)), f"{wanted} letters", 30.0, so=lambda count: count >= wanted)
    places = [each["place"] for each in _letters(ctl, name)]
    assert len(set(places)) == len(places) == wanted
    assert all(each["reason"] for each in _letters(ctl, name))
    found = told(ctl, "lag.dead_letters")
    assert all(place in found for place in places)
    if stream:
        info = as_user(ctl, "admin", lambda bus: bus.requests.api(f"CONSUMER.INFO.{stream}.noetl_trigger_{name}"))
        assert (info["num_ack_pending"], info["num_pending"]) == (0, 0)


def _warm(ctl: Ctl, name: str) -> None:
    """A core subject is heard from some moment on: then what was sent fires."""
    async def say(bus: JetStreamBus) -> None:
        await bus.publish(f"{name}.new", msgspec.json.encode({"id": "first", "text": "good"}))
        await bus.connection.flush()

    wait_until(lambda: (as_user(ctl, "admin", say) or _fired(ctl, name) > 0), "the trigger hears")


def _fired(ctl: Ctl, name: str) -> int:
    rows = ctl.json("get", "executions", "--limit", "500")
    return sum(row["by"] == f"trigger {name}" for row in rows) if rows and "by" in rows[0] else len(rows)


def _letters(ctl: Ctl, name: str) -> list[dict[str, str]]:
    return [each for each in letters(ctl, "triggers") if each["about"] == name]
