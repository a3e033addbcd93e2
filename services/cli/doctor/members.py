"""The services that are there, and whether each pool that has work has workers."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from services.cli.doctor import worker_beats
from services.cli.doctor.finding import Finding, duration, ok, problem, warning
from services.cli.doctor.target import Patient
from services.cli.stack.remedies import words
from services.cli.why import own_processes
from shared.answers.why.remedies import remedy
from shared.runtime.service.health import is_ready
from shared.runtime.stores import pool_state
from shared.runtime.stores.pool_state import PoolState

NEEDED = ("router", "scheduler")
WAITS_S = 60.0
UNATTENDED = "no pools service looks after it"


class Pool(Struct, frozen=True):
    """`waiting` commands are with nobody yet, `held` ones with workers; `oldest_s`: how long the first has waited.
    `wanted`: how many workers its document asks for. `paused`: by whom. `unattended`: nobody looks after it.
    `scaled`: KEDA decides how many there are."""

    name: str
    workers: int
    slots: int
    waiting: int
    held: int
    oldest_s: float
    wanted: int | None = None
    paused: str = ""
    unattended: bool = False
    scaled: bool = False


async def look(patient: Patient) -> list[Finding]:
    heard = await worker_beats.members(patient.bus)
    pools = [facts(state) for state in await pool_state.read_all(patient.bus, await patient.bus.time())]
    silent = {name: own_processes.process_of(patient.folder, name)
              for name in NEEDED if patient.folder is not None and not heard.get(name)}
    deciding = [services(name, len(heard.get(name, ())), silent.get(name)) for name in NEEDED]
    return [*deciding, *map(pool, pools), *await _health(patient)]


def facts(state: PoolState) -> Pool:
    ready = [worker for worker in state.workers if worker.state == "ready"]
    return Pool(
        name=state.name, workers=len(ready), slots=sum(worker.slots for worker in ready), waiting=state.pending or 0,
        held=state.in_flight or 0, oldest_s=state.oldest_s or 0.0, wanted=state.desired,
        paused=state.paused.by or "someone" if state.paused else "", unattended=state.state == "unattended",
        scaled=state.pool is not None and state.pool.is_scaled_by_others,
    )


def services(service: str, count: int, pid: int | None = None) -> Finding:
    """`pid`: its process, which is there and is not heard of."""
    name = f"members.{service}"
    if count:
        return ok(name, f"{count} {service}{'s' if count > 1 else ''}")
    if pid is not None:
        found = f"no {service} is heard of: its process {pid} is there and says nothing"
        return problem(name, found, "nothing is decided", words(remedy("end_process", pid=pid)))
    return problem(name, f"no {service} is there", "nothing is decided", f"start one: python -m services.{service}")


def pool(has: Pool) -> Finding:
    name = f"members.pool.{has.name}"
    work = f"{has.waiting} commands wait, {has.held} are held"
    found = f"{has.workers} workers with {has.slots} slots; {work}"
    fix = f"start workers: `noetlctl pool scale {has.name} N`, or NOETL_POOL={has.name} python -m services.worker"
    if has.scaled:
        fix = words(remedy("look_at_scaler", pool=has.name))
    if has.paused:
        return ok(name, f"paused by {has.paused}; {found}")
    if has.workers == 0 and has.waiting + has.held:
        return problem(name, f"no workers; {work}", "its steps do not run", fix)
    if has.unattended:
        why = "workers that are lost are not replaced, and what is asked of the pool is not done"
        return warning(name, f"{UNATTENDED}; {found}", why, "start one: python -m services.pools")
    if has.workers == 0 and has.wanted != 0 and not has.scaled:
        return warning(name, "no workers, and nothing to do", "the first step of the pool will wait", fix)
    if has.waiting and has.oldest_s >= WAITS_S:
        why = "steps begin late: the pool has too few slots for what is asked of it"
        return warning(name, f"{found}; the first waits for {duration(has.oldest_s)}", why, fix)
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
