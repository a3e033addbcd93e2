"""What a worker says of itself can be anything: nobody stops, nothing is believed of another pool, and it is told."""

import time

import msgspec
import pytest

from shared.bus.jetstream import JetStreamBus
from shared.bus.topology import WORKERS
from shared.errors import NoetlError
from tests.support.attacked import as_user, ctl, letters, told, unharmed
from tests.support.pool_ctl import Ctl
from tests.support.waiting import wait_until

__all__ = ["ctl", "unharmed"]
WORKER = "worker_default"
HEARD_S = 3.0  # the pools service looks every half second, the scheduler hears each beat at once


def beat(**parts: object) -> bytes:
    return msgspec.json.encode({"worker": "liar", "pool": "default", **parts})


BEATS = (
    b"{}",
    b"[]",
    b"1",
    b"\xff\xfe",
    b'{"worker":"\xff","pool":"default"}',
    b"[" * 100_000,
    b'{"worker":"liar","pool":"default","busy":' + b"[" * 100_000 + b"}",
    beat(pool="other"),
    beat(worker="another"),
    beat(worker="w" * 100_000),
    beat(host="\x1b]52;c;eA==\x07" * 100),
    beat(version="x" * 100_000),
    beat(slots=-1),
    beat(slots=1 << 60),
    beat(room=1 << 60),
    beat(started=1e300),
    beat(skew=-1e300),
    beat(held=[["x", "y", "z"]]),
    beat(held=[["a.>", "start:1", -1]]),
    beat(held=[[f"x{number}", "start:1", -1] for number in range(20_000)]),
    beat(held=[["x", "r" * 5000, -1]]),
    beat(held=[["x", "y", -1]], seqs=[-5]),
    beat(seqs=[1] * 100_000),
    beat(provides=["p" * 5000]),
    beat(busy=[{"kind": "k" * 5000, "size": 1}]),
)


def test_no_beat_stops_anyone_and_each_is_told(ctl: Ctl) -> None:
    keys = [f"default.liar-{number}" for number in range(len(BEATS))]

    async def attack(bus: JetStreamBus) -> None:
        for key, data in zip(keys, BEATS, strict=True):
            name = key.removeprefix("default.").encode()  # as it is in the key: each is wrong for its own reason
            await bus.kv_put(WORKERS, key, data.replace(b"liar", name))

    as_user(ctl, WORKER, attack)
    time.sleep(HEARD_S)
    assert all("liar" not in row["name"] for row in ctl.json("get", "workers"))
    assert ctl.pool("default")["state"] == "ready"
    assert all("liar" not in each["name"] for each in ctl.pool("default")["workers"])
    assert ctl("pool", "list")[0] == 0
    wait_until(lambda: {each["place"] for each in letters(ctl, "workers")} == {f"{WORKERS}/{key}" for key in keys},
          "each is a letter")
    found = told(ctl, "lag.dead_letters")
    assert all(f"{WORKERS}/{key}: " in found for key in keys)


def test_the_same_key_is_told_once_however_often_it_beats(ctl: Ctl) -> None:
    async def attack(bus: JetStreamBus) -> None:
        for number in range(50):
            await bus.kv_put(WORKERS, "default.again", b"{" + b" " * number)

    as_user(ctl, WORKER, attack)
    wait_until(lambda: any(each["place"].endswith("again") for each in letters(ctl, "workers")), "it is a letter")
    assert sum(each["place"].endswith("again") for each in letters(ctl, "workers")) == 1


@pytest.mark.parametrize("key", ["other.liar", "default.a.b", "liar", "default"])
def test_a_worker_writes_only_keys_of_its_own_pool(ctl: Ctl, key: str) -> None:
    async def attack(bus: JetStreamBus) -> None:
        with pytest.raises(NoetlError):
            await bus.kv_put(WORKERS, key, b"{}")

    as_user(ctl, WORKER, attack)

    async def keys(bus: JetStreamBus) -> set[str]:
        return set(await bus.kv_all(WORKERS))

    assert key not in as_user(ctl, "admin", keys)


def test_words_to_schedulers_that_make_no_sense_are_skipped(ctl: Ctl) -> None:
    async def attack(bus: JetStreamBus) -> None:
        for subject in ("noetl.ended.default", "noetl.closed.POOL_default", "noetl.members.scheduler",
                        "noetl.members.router", "noetl.stops.default"):
            for data in (b"", b"{}", b"\xff\xfe", b"[" * 100_000, b'{"client":{"name":"\xff"}}',
                         b'{"instance":"\xff","kind":"here"}', b"x" * 500_000):
                await bus.publish(subject, data)
        await bus.connection.flush()

    as_user(ctl, "admin", attack)
    time.sleep(HEARD_S)


def test_entries_that_make_no_sense_are_skipped(ctl: Ctl) -> None:
    """Written by an administrator's mistake: no service may end of it."""
    async def attack(bus: JetStreamBus) -> None:
        for bucket, key in (
            ("noetl_limits", "somekey"), ("noetl_limits", "=FF"), ("noetl_pools", "pool.ghost"),
            ("noetl_pools", "status.ghost"), ("noetl_schedules", "schedule.ghost"),
            ("noetl_schedules", "trigger.ghost"), ("noetl_schedules", "schedule_state.ghost"),
            ("noetl_ctx", "ghost"), ("noetl_loops", "ghost"),
        ):
            for data in (b"\xff\xfe", b"{}", b'{"source":"\xff"}', b"[" * 100_000, b'{"holders":{"a":"\xff"}}'):
                await bus.kv_put(bucket, key, data)
        for bucket, key in (("noetl_pools", "pool.ghost"), ("noetl_pools", "status.ghost")):
            await bus.kv_put(bucket, key, b"\xff\xfe")

    as_user(ctl, "admin", attack)
    time.sleep(HEARD_S)

    async def mend(bus: JetStreamBus) -> None:
        for key in ("pool.ghost", "status.ghost"):
            await bus.kv_delete("noetl_pools", key)

    as_user(ctl, "admin", mend)
