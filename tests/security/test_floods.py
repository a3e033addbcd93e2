"""Floods of small messages whose handling is costly: signals that lie there when their wait begins, and messages of a
trigger. The scheduler answers all the while, and others go on."""

import asyncio
import time
import urllib.request
from collections.abc import Awaitable, Callable

import msgspec

from shared.bus.jetstream import JetStreamBus
from shared.events import subjects
from tests.support.attacked import as_user, ctl, letters, register, start, unharmed
from tests.support.pool_ctl import Ctl
from tests.support.waiting import wait_until

__all__ = ["ctl", "unharmed"]
SLOW_S = 2.0   # one answer of the scheduler; a decision has 0.05 s, CI has other work; unbounded it is 20 to 30 s
WATCH_S = 10.0
SIGNALLED = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: signalled, path: attacked/signalled}
workflow:
- step: start
  tool:
  - {name: pause, kind: wait, for: 4s}
  - name: ask
    kind: signal
    signal: go
    schema: {type: array, items: {type: string, pattern: "^[a-z]+$", minLength: 1}, uniqueItems: true}
"""
TRIGGER = """apiVersion: noetl.io/v2
kind: Trigger
metadata: {name: costly}
spec:
  playbook: {path: attacked/plain}
  subject: costly.new
  filter: "{{ (range(12000) | map('string') | list | length) < 0 }}"
"""


def test_kept_signals_do_not_stop_the_scheduler(ctl: Ctl) -> None:
    register(ctl, "signalled", SIGNALLED)
    execution_id = start(ctl, "attacked/signalled")
    payload = [f"abcdefghij{n}" for n in range(600)]
    asked = msgspec.json.encode({"execution_id": execution_id, "name": "go", "payload": payload})

    async def flood(bus: JetStreamBus) -> None:
        for _ in range(900):
            await bus.publish(subjects.SIGNAL, asked)
        await bus.connection.flush()

    assert _slowest(ctl, flood) < SLOW_S
    wait_until(lambda: _rejected(ctl, execution_id), "signals are rejected", 30.0, so=lambda count: count > 5)
    began = time.monotonic()
    assert ctl("why", execution_id)[0] in (0, 1)
    assert time.monotonic() - began < 10.0
    assert ctl("cancel", execution_id)[0] == 0
    code, out, err = ctl("verify", execution_id)
    assert code == 0, out + err


def test_messages_of_a_costly_trigger_do_not_stop_the_scheduler(ctl: Ctl) -> None:
    file = ctl.folder / "costly.yaml"
    file.write_text(TRIGGER)
    assert ctl("trigger", "apply", "-f", str(file))[0] == 0
    wait_until(lambda: ctl.json("trigger", "list") != [], "the trigger is there")
    time.sleep(2.0)  # a core subject is heard from some moment on

    async def flood(bus: JetStreamBus) -> None:
        for _ in range(1300):
            await bus.publish("costly.new", b'{"n":1}')
        await bus.connection.flush()

    assert _slowest(ctl, flood) < SLOW_S
    found = [each for each in letters(ctl, "triggers") if each["about"] == "costly"]
    assert len(found) == 1
    assert "dropped" in found[0]["reason"]


def _slowest(ctl: Ctl, attack: Callable[[JetStreamBus], Awaitable[None]]) -> float:
    """The longest that the scheduler took to answer while it was attacked, in seconds."""
    url = f"{ctl.up.context['health']['scheduler']}/livez"

    def asked() -> float:
        began = time.monotonic()
        urllib.request.urlopen(url, timeout=60).read()
        return time.monotonic() - began

    async def watch(bus: JetStreamBus) -> float:
        attacking = asyncio.ensure_future(attack(bus))
        until, worst = time.monotonic() + WATCH_S, 0.0
        while time.monotonic() < until:
            worst = max(worst, await asyncio.to_thread(asked))
            await asyncio.sleep(0.05)
        await attacking
        return worst

    return as_user(ctl, "admin", watch)


def _rejected(ctl: Ctl, execution_id: str) -> int:
    return ctl("logs", execution_id)[1].count("reject")
