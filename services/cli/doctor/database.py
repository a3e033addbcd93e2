"""PostgreSQL: reachable, migrated, with connections to spare, and not far behind the log."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import asyncpg
from msgspec import Struct

from services.cli.doctor.finding import Finding, duration, ok, problem, skipped, warning
from services.cli.doctor.lag import Behind
from services.cli.doctor.target import Patient
from services.cli.executions.readmodel import words
from shared.bus import stored_messages, topology
from shared.events import subjects
from shared.runtime.embedded import postgres

CONNECT_S = 5.0
AWAY = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)
OLDEST = 130_000  # PostgreSQL 13
FEW_CONNECTIONS = 5
LATE_S = 30.0
STUCK_S = 300.0
START = "start PostgreSQL, and check NOETL_POSTGRES_DSN"
_CONNECTIONS = """
SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
    - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')
"""

_APPLIED = "SELECT version, coalesce((to_jsonb(m) ->> 'oldest')::int, version) AS oldest FROM noetl.schema_migration m"
_READ_ONLY = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'"


class Facts(Struct, frozen=True):
    version: int
    text: str
    free: int
    applied: dict[int, int]  # the versions of the schema, and the oldest of a build that can write after each
    corrupt: int
    cursors: dict[int, int]
    read_only: bool = False


async def look(patient: Patient) -> list[Finding]:
    dsn = patient.settings.postgres_dsn
    if not dsn:
        return [skipped("postgres.reachable", "there is no read model: no DSN is set", "set NOETL_POSTGRES_DSN")]
    try:
        facts = await read(dsn)
    except AWAY as error:
        return [reachable(words(error), fix=_fix(patient))]
    partitions = range(patient.settings.partitions)
    behind = [await _behind(patient, facts, partition) for partition in partitions]
    return [reachable("", facts.text), old(facts), writable(facts), connections(facts.free), migrated(facts.applied),
            corrupt(facts.corrupt), projector(behind)]  # fmt: skip


async def read(dsn: str) -> Facts:
    connection = await asyncpg.connect(dsn, timeout=CONNECT_S, command_timeout=CONNECT_S)
    try:
        has = await connection.fetchval("SELECT to_regclass('noetl.schema_migration') IS NOT NULL")
        applied = await connection.fetch(_APPLIED) if has else []
        tables = await connection.fetchval("SELECT to_regclass('noetl.cursor') IS NOT NULL")
        cursors = await connection.fetch("SELECT partition, seq FROM noetl.cursor") if tables else []
        return Facts(
            await connection.fetchval("SELECT current_setting('server_version_num')::int"),
            await connection.fetchval("SHOW server_version"),
            await connection.fetchval(_CONNECTIONS),
            {row["version"]: row["oldest"] for row in applied},
            await connection.fetchval("SELECT count(*) FROM noetl.corrupt") if tables else 0,
            {row["partition"]: row["seq"] for row in cursors},
            await connection.fetchval(_READ_ONLY),
        )
    finally:
        await connection.close()


async def _behind(patient: Patient, facts: Facts, partition: int) -> Behind:
    stream, cursor = topology.events_stream(partition), facts.cursors.get(partition, 0)
    last = await patient.bus.last_seq(stream)
    first = await stored_messages.first(patient.bus, stream, f"{subjects.EVENTS}.>", cursor) if cursor < last else None
    return Behind(partition, cursor, last, max(0, last - cursor), await patient.bus.time() - first.at if first else 0.0)


def reachable(error: str, text: str = "", fix: str = START) -> Finding:
    name = "postgres.reachable"
    if error:
        return problem(name, f"no answer: {error}", "there are no lists and no read model; the engine goes on", fix)
    return ok(name, f"PostgreSQL {text}")


def _fix(patient: Patient) -> str:
    own = patient.folder / "postgres" if patient.folder is not None else None
    if own is None or not postgres.is_of(own, patient.settings.postgres_dsn):
        return START
    return embedded(own, postgres.pid_of(own))


def embedded(folder: Path, pid: int | None) -> str:
    """What to do about that of `noetlctl up`, which starts it again by itself."""
    if pid is None:
        return f"wait, `noetlctl up` starts it again; if it does not, look at what that prints and at {folder / 'log'}"
    return (f"wait if it is starting ({folder / 'log'} says so); if process {pid} is frozen: kill -9 {pid}, "
            "and `noetlctl up` starts it again")  # fmt: skip


def old(facts: Facts) -> Finding:
    name, found = "postgres.version", f"PostgreSQL {facts.text}"
    if facts.version < OLDEST:
        return problem(name, found, "it has no support any more", f"use PostgreSQL {OLDEST // 10_000} or newer")
    return ok(name, found)


def writable(facts: Facts) -> Finding:
    name = "postgres.writable"
    if facts.read_only:
        why = "the projector waits until it can write; lists and queries show an old state"
        return problem(name, "it is read-only", why, "use the primary, or reset default_transaction_read_only")
    return ok(name, "it takes writes")


def connections(free: int) -> Finding:
    name, found = "postgres.connections", f"{free} connections free"
    if free < FEW_CONNECTIONS:
        why = "the projector and noetlctl need one each and will be turned away"
        return warning(name, found, why, "raise max_connections, or close what holds them")
    return ok(name, found)


def migrated(applied: Mapping[int, int], wanted: Mapping[int, object] | None = None) -> Finding:
    from shared.runtime.readmodel.schema import migrations

    name, files = "postgres.migrations", frozenset(wanted if wanted is not None else migrations())
    if pending := sorted(files - applied.keys()):
        why = "the read model has not the tables of this version"
        return warning(name, f"not applied: {pending}", why, "start a projector: it applies them")
    if unknown := sorted(applied.keys() - files):
        if max(applied[version] for version in unknown) <= max(files):
            why = "a newer version has added to the tables; projectors of this one leave that empty"
            return warning(name, f"unknown to this version: {unknown}", why, "use the newer version everywhere")
        why = "a newer version has changed the tables; projectors of this one stop"
        return problem(name, f"unknown to this version: {unknown}", why, "use the newer version everywhere")
    return ok(name, f"{len(files)} applied")


def corrupt(rows: int) -> Finding:
    name = "postgres.corrupt"
    if rows:
        why = "records of the log could not be read or stored: what they say is missing in the read model"
        fix = "look at the column `error` of the rows; they name partition and sequence"
        return problem(name, f"{rows} rows in noetl.corrupt", why, fix)
    return ok(name, "every record could be stored")


def projector(partitions: Sequence[Behind]) -> Finding:
    name = "lag.projector"
    ahead = [each for each in partitions if each.cursor > each.last]
    if ahead:
        places = ", ".join(f"partition {each.partition}: {each.cursor} of {each.last}" for each in ahead)
        why = "the stream was rolled back, or it is another log; the projector stops"
        fix = "restore the stream, or run `noetlctl admin rebuild-projection --yes`"
        return problem(name, f"the read model is ahead of the log: {places}", why, fix)
    waiting, oldest = sum(each.waiting for each in partitions), max((each.oldest_s for each in partitions), default=0.0)
    found = f"{waiting} records wait" + (f", the first for {duration(oldest)}" if waiting else "")
    if not waiting or oldest < LATE_S:
        return ok(name, found)
    make = problem if oldest >= STUCK_S else warning
    return make(name, found, "lists and queries show an old state", "start a projector, or look at its log")
