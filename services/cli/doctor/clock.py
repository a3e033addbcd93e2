"""The clocks: this machine's, the broker's, PostgreSQL's, and those of the services as their records show them."""

import time

from msgspec import Struct

from services.cli.checks import peek
from services.cli.checks.database import CONNECT_S
from services.cli.checks.finding import Finding, duration, ok, problem, warning
from services.cli.checks.patient import Patient
from shared.bus import topology
from shared.bus.jetstream import nanoseconds
from shared.errors import Corrupt
from shared.events import subjects
from shared.events.record import decode
from shared.events.stamp import seconds

OFF_S = 1.0
WRONG_S = 30.0
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
    skews = [broker]
    postgres = await _postgres(patient, broker)
    skews += [postgres] if postgres else []
    for writer in WRITERS:
        skews += await _writer(patient, writer)
    return [judge(skews)]


async def _broker(patient: Patient) -> Skew:
    """From the time in an answer; the shortest way of three is the surest."""
    tries = []
    for _ in range(3):
        began = time.time()
        there = nanoseconds((await patient.bus.requests.api(f"STREAM.INFO.{topology.REQUESTS}"))["ts"]) / 1e9
        ended = time.time()
        tries.append(Skew("this machine", (began + ended) / 2 - there, (ended - began) / 2))
    return min(tries, key=lambda skew: skew.within_s)


async def _postgres(patient: Patient, broker: Skew) -> Skew | None:
    import asyncpg

    if not patient.settings.postgres_dsn:
        return None
    try:
        connection = await asyncpg.connect(patient.settings.postgres_dsn, timeout=CONNECT_S, command_timeout=CONNECT_S)
    except (OSError, TimeoutError, asyncpg.PostgresError):
        return None  # told by the check of the database
    try:
        began = time.time()
        there = float(await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())"))
        ended = time.time()
    finally:
        await connection.close()
    ahead = there - (began + ended) / 2 + broker.ahead_s
    return Skew("PostgreSQL", ahead, (ended - began) / 2 + broker.within_s)


async def _writer(patient: Patient, writer: str) -> list[Skew]:
    """A record carries the time of its writer, and the broker's beside it."""
    found = []
    for partition in range(patient.settings.partitions):
        stream, subject = topology.events_stream(partition), subjects.events_by(partition, writer)
        message = await peek.last(patient.bus, stream, subject)
        if message is None or time.time() - message.at > RECENT_S:
            continue
        try:
            found.append(Skew(f"a {writer}", seconds(decode(message.data).ts) - message.at))
        except (Corrupt, ValueError):
            continue  # told by the projector
    return [min(found, key=lambda skew: abs(skew.ahead_s))] if found else []


def judge(skews: list[Skew]) -> Finding:
    name = "clock"
    far = max(skews, key=lambda skew: skew.certain_s)
    if far.certain_s < OFF_S:
        return ok(name, f"{len(skews)} clocks agree with the broker's to within {far.certain_s:.2f} s")
    found = "; ".join(_text(skew) for skew in skews if skew.certain_s >= OFF_S)
    why = "schedules, deadlines, leases and the times of events follow these clocks"
    make = problem if far.certain_s >= WRONG_S else warning
    return make(name, found, why, "keep the clocks of all machines in step, with chrony or systemd-timesyncd")


def _text(skew: Skew) -> str:
    return f"{skew.whose} is {duration(abs(skew.ahead_s))} {'ahead of' if skew.ahead_s > 0 else 'behind'} the broker"
