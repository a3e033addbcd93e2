"""The services that are there, and whether each pool that has work has workers."""

import time
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from msgspec import Struct

from services.cli.checks import hearing, peek
from services.cli.checks.finding import Finding, duration, ok, problem, warning
from services.cli.checks.patient import Patient
from shared.bus import topology
from shared.bus.request import NotFound
from shared.events import subjects
from shared.events.beat import Beat
from shared.runtime.health import is_ready

NEEDED = ("router", "scheduler")
WAITS_S = 60.0


class Pool(Struct, frozen=True):
    """`waiting` commands are with nobody yet, `held` ones with workers; `oldest_s`: how long the first has waited."""

    name: str
    workers: int
    slots: int
    waiting: int
    held: int
    oldest_s: float


async def look(patient: Patient) -> list[Finding]:
    heard = await hearing.members(patient.bus)
    beats = await hearing.workers(patient.bus)
    names = sorted({*patient.settings.pools, *(beat.pool for beat in beats)})
    pools = [await _pool(patient, name, beats) for name in names]
    return [*(services(name, len(heard.get(name, ()))) for name in NEEDED), *map(pool, pools), *await _health(patient)]


async def _pool(patient: Patient, name: str, beats: Sequence[Beat]) -> Pool:
    mine = [beat for beat in beats if beat.pool == name]
    slots = sum(beat.slots for beat in mine)
    try:
        info = await patient.bus.requests.api(f"CONSUMER.INFO.{topology.COMMANDS}.{name}")
    except NotFound:
        return Pool(name, len(mine), slots, 0, 0, 0.0)  # told by the check of the streams
    waiting, after = int(info["num_pending"]), int(info["delivered"]["stream_seq"])
    first = await peek.queued(patient.bus, topology.COMMANDS, subjects.commands_of(name), after) if waiting else None
    oldest = time.time() - first.at if first else 0.0
    return Pool(name, len(mine), slots, waiting, int(info["num_ack_pending"]), oldest)


def services(service: str, count: int) -> Finding:
    name = f"members.{service}"
    if count:
        return ok(name, f"{count} {service}{'s' if count > 1 else ''}")
    return problem(name, f"no {service} is there", "nothing is decided", f"start one: python -m services.{service}")


def pool(facts: Pool) -> Finding:
    name = f"members.pool.{facts.name}"
    work = f"{facts.waiting} commands wait, {facts.held} are held"
    found = f"{facts.workers} workers with {facts.slots} slots; {work}"
    fix = f"start workers of the pool: NOETL_POOL={facts.name} python -m services.worker"
    if facts.workers == 0 and facts.waiting + facts.held:
        return problem(name, f"no workers; {work}", "its steps do not run", fix)
    if facts.workers == 0:
        return warning(name, "no workers, and nothing to do", "the first step of the pool will wait", fix)
    if facts.waiting and facts.oldest_s >= WAITS_S:
        why = "steps begin late: the pool has too few slots for what is asked of it"
        return warning(name, f"{found}; the first waits for {duration(facts.oldest_s)}", why, fix)
    return ok(name, found)


async def _health(patient: Patient) -> list[Finding]:
    """Only a context file says where the services answer."""
    if not patient.health:
        return []
    places = {unit: urlsplit(url) for unit, url in patient.health.items()}
    return [health({unit: await is_ready(at.hostname or "", at.port or 0) for unit, at in places.items()})]


def health(answers: Mapping[str, bool]) -> Finding:
    name = "members.health"
    bad = [unit for unit, ready in answers.items() if not ready]
    if not bad:
        return ok(name, f"{len(answers)} services say that they are ready")
    why, fix = "a service that is not ready takes no work", "look at its log: it says what it waits for"
    return problem(name, f"not ready: {', '.join(bad)}", why, fix)
