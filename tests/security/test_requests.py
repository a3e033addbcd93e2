"""Requests can hold anything: each that no router can use is one letter with its reason, is not tried again, and the
next one is served. What only the engine may say is not believed of others."""

import asyncio
import contextlib
import json
import time

import msgspec
import pytest

from shared.bus.jetstream import JetStreamBus
from shared.events import subjects
from tests.support.attacked import as_user, ctl, letters, register, start, told, unharmed
from tests.support.pool_ctl import Ctl
from tests.support.waiting import wait_until

__all__ = ["ctl", "unharmed"]
PLAIN = "attacked/plain"
DEEP = b"[" * 100_000 + b"]" * 100_000
WAITS = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: waits, path: attacked/waits}
workflow: [{step: start, tool: {kind: signal, signal: go}}]
"""


def request(**parts: object) -> bytes:
    return msgspec.json.encode({"path": PLAIN, **parts})


REQUESTS = (
    b"",
    b"{",
    b"\xff\xfe",
    b'{"path":"\xff\xfe"}',
    b'{"path":"attacked/plain","payload":{"a":"\xff"}}',
    b"\x00" * 1000,
    b"\x01" * 900_000,
    b'{"path":"' + b"\x01" * 900_000 + b'"}',
    b'{"path":"' + b"\\u0007" * 80_000 + b'"}',
    b"[]",
    b"1",
    DEEP,
    b'{"path":"attacked/plain","payload":{"a":' + DEEP + b"}}",
    b'{"path":"attacked/plain","payload":{"a":' + b"[" * 400 + b"]" * 400 + b"}}",
    b"{}",
    msgspec.json.encode({"path": "a/" * 3000}),
    msgspec.json.encode({"path": "\x1b]52;c;eA==\x07"}),
    request(version="v" * 5000),
    request(execution_id="a.b.>"),
    request(execution_id="--help"),
    request(execution_id="x" * 5000),
    request(labels={f"l{number}": "x" for number in range(5000)}),
    request(labels={"a": "x" * 5000}),
    request(by="x" * 5000),
    request(payload="text"),
    b'{"path":"attacked/plain","priority":' + b"9" * 5000 + b"}",
)
CONTROLS = (
    b"",
    b"\xff\xfe",
    b'{"execution_id":"x","reason":"\xff"}',
    DEEP,
    b'{"execution_id":"x","payload":' + DEEP + b"}",
    b'{"execution_id":"x","reason":"' + b"\x01" * 100_000 + b'"}',
    msgspec.json.encode({"execution_id": "a.>"}),
    msgspec.json.encode({"execution_id": "x", "reason": "r" * 100_000}),
    msgspec.json.encode({"execution_id": "x", "by": "r" * 100_000}),
    msgspec.json.encode({"execution_id": "x", "name": "r" * 100_000}),
    msgspec.json.encode({"execution_id": "x", "grace_s": 1e300}),
    msgspec.json.encode({"execution_id": "x", "grace_s": -1.0}),
)


def send(ctl: Ctl, subject: str, bodies: tuple[bytes, ...], user: str = "admin") -> list[str]:
    """The places of what was sent."""
    async def attack(bus: JetStreamBus) -> list[str]:
        return [f"NOETL_REQUESTS/{await bus.append(subject, body)}" for body in bodies]

    return as_user(ctl, user, attack)


def buried(ctl: Ctl, places: list[str]) -> None:
    wait_until(lambda: set(places) <= {each["place"] for each in letters(ctl, "requests")}, "each is a letter", 20.0)
    found = [each["place"] for each in letters(ctl, "requests")]
    assert all(found.count(place) == 1 for place in places)
    assert all(each["reason"].isprintable() for each in letters(ctl, "requests"))

    async def waiting(bus: JetStreamBus) -> int:
        info = await bus.requests.api("CONSUMER.INFO.NOETL_REQUESTS.router")
        return int(info["num_ack_pending"]) + int(info["num_pending"])

    wait_until(lambda: as_user(ctl, "admin", waiting) == 0, "none is tried again")


def test_each_request_that_cannot_be_used_is_buried_once(ctl: Ctl) -> None:
    places = send(ctl, subjects.EXECUTE, REQUESTS)
    buried(ctl, places)
    found = told(ctl, "lag.dead_letters")
    assert all(f"requests {place}: " in found for place in places)


@pytest.mark.parametrize("what", ["cancel", "pause", "resume", "signal", "rerun"])
def test_each_wish_that_cannot_be_read_is_buried_once(ctl: Ctl, what: str) -> None:
    buried(ctl, send(ctl, f"noetl.requests.{what}", CONTROLS))


def test_a_subject_that_no_router_takes_is_buried(ctl: Ctl) -> None:
    buried(ctl, send(ctl, "noetl.requests.nosuch", (request(),)) + send(ctl, "noetl.requests.a.b", (b"{}",)))


def test_headers_can_be_anything(ctl: Ctl) -> None:
    async def attack(bus: JetStreamBus) -> list[str]:
        places = []
        for name, value in (("Noetl-Reply-To", "a b"), ("Noetl-Reply-To", "x." * 5000 + "x"), ("Noetl-Reply-To", ">"),
                            ("Nats-Msg-Id", "m" * 10_000), ("Traceparent", "t" * 10_000)):
            places.append(f"NOETL_REQUESTS/{await bus.append(subjects.EXECUTE, b'{', headers={name: value})}")
        return places

    buried(ctl, as_user(ctl, "admin", attack))


@pytest.mark.parametrize("where", ["noetl.events.0.x.router", "$KV.noetl_cursors.router.0", "noetl.dlq.x", "_INBOX.*"])
def test_an_answer_goes_to_an_inbox_and_nowhere_else(ctl: Ctl, where: str) -> None:
    """The router may write where whoever asks may not."""
    async def attack(bus: JetStreamBus) -> tuple[int, list[bytes]]:
        inbox = await bus.subscribe(where if "*" not in where else "_INBOX.probe")
        heard: list[bytes] = []
        await bus.append(subjects.EXECUTE, b"{", headers={"Noetl-Reply-To": where})
        seq = await bus.append(subjects.EXECUTE, b"{", headers={"Noetl-Reply-To": where})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2.0):
                while True:
                    heard.append(await inbox.next())
        return seq, [each for each in heard if b"execution_id" in each]

    seq, answers = as_user(ctl, "admin", attack)
    buried(ctl, [f"NOETL_REQUESTS/{seq - 1}", f"NOETL_REQUESTS/{seq}"])
    assert answers == []


def test_a_parent_is_only_the_engines_to_name(ctl: Ctl) -> None:
    """A stranger's execution would end the wait of another, or count as its child."""
    register(ctl, "waits", WAITS)
    victim = start(ctl, "attacked/waits")
    wait_until(lambda: bool(ctl.json("why", victim)["reasons"]), "it waits")
    forged = request(
        execution_id="forged-child", parent={"execution_id": victim, "run_id": "start:1", "wait": "w", "step": "start"})
    places = send(ctl, subjects.EXECUTE, (forged,))
    buried(ctl, places)
    assert ctl("get", "forged-child")[0] != 0
    assert ctl.status(victim) == "running"
    assert ctl("cancel", victim)[0] == 0


def test_nobody_but_the_scheduler_may_ask_for_children(ctl: Ctl) -> None:
    """An administrator can, since it may do everything; a worker and the router cannot."""
    child = request(execution_id="a-child", parent={"execution_id": "x", "run_id": "start:1", "wait": "w"})
    for user in ("worker_default", "router"):
        with pytest.raises(Exception, match=r"not allowed|no stream takes"):
            send(ctl, subjects.CHILD, (child,), user)
    assert ctl("get", "a-child")[0] != 0


def test_what_is_buried_can_be_shown_and_replayed(ctl: Ctl) -> None:
    large = b'{"path":"attacked/plain","by":"' + b"x" * 20_000 + b'"}'
    (place,) = send(ctl, subjects.EXECUTE, (large,))
    buried(ctl, [place])
    (letter,) = [each for each in letters(ctl, "requests") if each["place"] == place]
    seq = str(letter["seq"])
    shown = ctl.json("dlq", "show", seq)
    assert (shown["bytes"], shown["whole"], len(shown["body"])) == (len(large), False, 4096)
    assert ctl("dlq", "replay", seq)[0] == 3  # the whole of it was taken from the stream, and is still wrong
    mended = json.dumps({"path": PLAIN, "execution_id": "replayed"})
    assert ctl("dlq", "replay", seq, "--body", mended, "--drop")[0] == 0
    ctl.completed("replayed")


def test_an_execution_that_is_asked_for_under_the_same_id_again_is_not_buried(ctl: Ctl) -> None:
    send(ctl, subjects.EXECUTE, (request(execution_id="twice"), request(execution_id="twice")))
    ctl.completed("twice")
    time.sleep(1.0)
    assert all("twice" not in json.dumps(each) for each in letters(ctl, "requests"))
