"""The clocks: this machine's, PostgreSQL's and those of the machines of the services, against the broker's."""

import time

from msgspec import Struct

from services.cli.doctor import worker_beats
from services.cli.doctor.database import CONNECT_S
from services.cli.doctor.finding import Finding, duration, ok, problem, warning
from services.cli.doctor.target import Patient
from shared.bus import stored_messages, topology
from shared.errors import Corrupt
from shared.events import subjects
from shared.events.record import Kept, decode
from shared.events.stamp import seconds
from shared.runtime.stores import heartbeats, pools

OFF_S = 1.0
RECENT_S = 3600.0  # what an older record shows may have been put right since
WRITERS = ("router", "scheduler", "worker")


class Skew(Struct, frozen=True):
    """`ahead_s` of the broker's clock, known to within `within_s`."""

    whose: str
    ahead_s: float
    within_s: float = 0.0

    @property
    def certain_s(self) -> float:
        """How much of it there is at the least."""
        return max(0.0, abs(self.ahead_s) - self.within_s)


async def look(patient: Patient) -> list[Finding]:
    broker = await _broker(patient)
    postgres, told = await _postgres(patient, broker), await _told(patient)
    skews = [broker, *([postgres] if postgres else []), *told]
    for writer in WRITERS:
        skews += await _writer(patient, writer)
    return [judge(skews, patient.settings.max_skew_s)]


async def _broker(patient: Patient) -> Skew:
    """The shortest way of three is the surest."""
    tries = []
    for _ in range(3):
        began = time.time()
        there = await patient.bus.time()
        ended = time.time()
        tries.append(Skew("this machine", (began + ended) / 2 - there, (ended - began) / 2))
    return min(tries, key=lambda skew: skew.within_s)


async def _told(patient: Patient) -> list[Skew]:
    """Each service compares its machine's clock with the broker's, and says so in its heartbeats."""
    heard = await worker_beats.members(patient.bus)
    found = [Skew(f"{service} {notice.instance}", notice.skew)
             for service, notices in sorted(heard.items()) for notice in notices.values()]
    told = (await heartbeats.read_all(patient.bus)).values()
    found += [Skew(f"worker {beat.worker}", beat.skew) for beat in told]
    leader = await patient.bus.kv_get(topology.POOLS, pools.LEADER)
    if leader is not None:
        known = pools.leader(leader.value)
        found.append(Skew(f"pools {known.holder}", known.skew))
    return found


async def _postgres(patient: Patient, broker: Skew) -> Skew | None:
    import asyncpg

    if not patient.settings.postgres_dsn:
        return None
    try:
        connection = await asyncpg.connect(patient.settings.postgres_dsn, timeout=CONNECT_S, command_timeout=CONNECT_S)
    except (OSError, TimeoutError, asyncpg.PostgresError):
        return None  # reported by the check of the database
    try:
        began = time.time()
        there = float(await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())"))
        ended = time.time()
    finally:
        await connection.close()
    ahead = there - (began + ended) / 2 + broker.ahead_s
    return Skew("PostgreSQL", ahead, (ended - began) / 2 + broker.within_s)


async def _writer(patient: Patient, writer: str) -> list[Skew]:
    """A record carries the time its writer went by, and the broker's beside it: they are the same, unless the broker's
    clock was set back and the writer has not come back to it yet."""
    found, now = [], await patient.bus.time()
    for partition in range(patient.settings.partitions):
        stream = topology.events_stream(partition)
        last = [await stored_messages.last(patient.bus, stream, each) for each in subjects.events_by(partition, writer)]
        message = max((each for each in last if each is not None), key=lambda each: each.seq, default=None)
        if message is None or now - message.at > RECENT_S:
            continue
        stored = Kept(message.subject, message.data, message.seq, round(message.at * 1e9))
        try:
            record = decode(stored, patient.settings.partitions)
        except Corrupt:
            continue  # reported by the projector
        found.append(Skew(f"the time in records of a {writer}", seconds(record.ts) - message.at))
    return [min(found, key=lambda skew: abs(skew.ahead_s))] if found else []


def judge(skews: list[Skew], wrong_s: float) -> Finding:
    """Over `wrong_s` a service refuses to start."""
    name = "clock"
    far = max(skews, key=lambda skew: skew.certain_s)
    if far.certain_s < OFF_S:
        return ok(name, f"{len(skews)} clocks agree with the broker's to within {far.certain_s:.2f} s")
    found = "; ".join(_text(skew) for skew in skews if skew.certain_s >= OFF_S)
    why = f"services go by the broker's clock and refuse to start over {wrong_s:g} s; certificates and logs do not"
    make = problem if far.certain_s >= wrong_s else warning
    return make(name, found, why, "keep the clocks of all machines in step, with chrony or systemd-timesyncd")


def _text(skew: Skew) -> str:
    return f"{skew.whose} is {duration(abs(skew.ahead_s))} {'ahead of' if skew.ahead_s > 0 else 'behind'} the broker"
