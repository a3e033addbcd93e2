"""What `noetlctl get NOUN` lists: where the rows come from, and their columns."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from services.cli.console import exits, render, times
from services.cli.console.render import Column, labels
from services.cli.stack import context
from shared.bus import topology
from shared.bus.ports import Bus
from shared.runtime.stores import catalog, heartbeats

if TYPE_CHECKING:
    from shared.runtime.stores.schedules import Entry

Row = dict[str, Any]


def _took(row: Mapping[str, Any]) -> str:
    return times.between(row["started_at"], row["finished_at"], datetime.now(UTC))


EXECUTION_COLUMNS = (
    Column("EXECUTION", "execution_id"),
    Column("STATUS", "status", colour=True),
    Column("STARTED", lambda row: times.local(row["started_at"])),
    Column("TOOK", _took),
    Column("PLAYBOOK", lambda row: f"{row['path']} {row['version']}".rstrip()),
    Column("LABELS", lambda row: labels(row["labels"]), wide=True),
    Column("PARENT", "parent_id", wide=True),
)


async def playbooks(bus: Bus) -> list[Row]:
    return [playbook(entry, latest) for entry, latest in await catalog.everything(bus)]


def playbook(entry: catalog.Entry, latest: bool) -> Row:
    return {"path": entry.path, "version": entry.version, "digest": entry.digest,
            "playbook_id": entry.playbook_id, "latest": latest}


async def schedules(bus: Bus) -> list[Row]:
    from shared.runtime.stores import schedules as store_schedules

    stored = await store_schedules.everything(bus, "Schedule")
    return [_schedule(name, entry) for name, entry in stored.items()]


def _schedule(name: str, entry: "Entry") -> Row:
    from services.cli.playbooks import documents  # late: it brings the tools along

    schedule = documents.schedule_in(entry)
    due = [] if entry.paused else documents.next_times(schedule, 1)
    return {"name": name, "when": documents.when(schedule), "paused": entry.paused,
            "next": due[0]["local"] if due else "", "playbook": schedule.playbook.path}


async def triggers(bus: Bus) -> list[Row]:
    from shared.runtime.stores import schedules as store_schedules

    return [_trigger(entry) for entry in (await store_schedules.everything(bus, "Trigger")).values()]


def _trigger(entry: "Entry") -> Row:
    from services.cli.playbooks import documents  # late: it brings the tools along

    trigger = documents.trigger_in(entry)
    return {"name": trigger.name, "subject": trigger.subject, "stream": trigger.stream,
            "playbook": trigger.playbook.path}


async def credentials(bus: Bus) -> list[Row]:
    """Names alone: what a credential holds is for workers."""
    return [{"name": name} for name in sorted(await bus.kv_all(topology.KEYCHAIN))]


async def workers(bus: Bus) -> list[Row]:
    found = (await heartbeats.read_all(bus)).values()
    rows = [{"name": beat.worker, "pool": beat.pool, "slots": beat.slots, "held": len(beat.held)} for beat in found]
    return sorted(rows, key=lambda row: (row["pool"], row["name"]))


async def pools(bus: Bus) -> list[Row]:
    """`ready` are workers; `pending` commands wait for one, `in_flight` are with one."""
    from services.cli.pools import queues as pools

    ready = Counter(row["pool"] for row in await workers(bus))
    return [
        {"name": name, "ready": ready[name], "pending": pending, "in_flight": in_flight}
        for name, (pending, in_flight) in sorted((await pools.queues(bus)).items())
    ]


class Noun(NamedTuple):
    """`name` is the key of the rows' names."""

    load: Callable[[Bus], Awaitable[list[Row]]]
    columns: tuple[Column, ...]
    name: str = "name"


def _due(row: Mapping[str, Any]) -> str:
    return "paused" if row["paused"] else times.in_zone(times.parsed(row["next"])) if row["next"] else ""


NOUNS = {
    "playbook": Noun(playbooks, (
        Column("PATH", "path"), Column("VERSION", "version"), Column("DIGEST", lambda row: row["digest"][:12]),
        Column("LATEST", lambda row: "*" if row["latest"] else ""),
    ), "path"),
    "schedule": Noun(schedules, (
        Column("NAME", "name"), Column("WHEN", "when"), Column("NEXT", _due), Column("PLAYBOOK", "playbook"),
    )),
    "trigger": Noun(triggers, (
        Column("NAME", "name"), Column("SUBJECT", "subject"), Column("STREAM", "stream"),
        Column("PLAYBOOK", "playbook"),
    )),
    "credential": Noun(credentials, (Column("NAME", "name"),)),
    "worker": Noun(workers, (
        Column("NAME", "name"), Column("POOL", "pool"), Column("SLOTS", "slots"), Column("HELD", "held"),
    )),
    "pool": Noun(pools, (
        Column("NAME", "name"), Column("READY", "ready"), Column("PENDING", "pending"),
        Column("IN-FLIGHT", "in_flight"),
    )),
}


async def show(noun: str, output: str, context_file: Path | None) -> int:
    """Lists all there are of it."""
    kind = NOUNS[noun]
    async with context.connected(context.find(context_file)) as bus:
        render.rows(await kind.load(bus), kind.columns, output, kind.name)
    return exits.OK
