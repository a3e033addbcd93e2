"""Room for the log: free space where the broker keeps its files, and the limits it was given."""

import os

from msgspec import Struct

from services.cli.doctor.finding import Finding, ok, problem, size, skipped, warning
from services.cli.doctor.target import Patient
from services.cli.stack.broker_files import WRITE_ERROR
from shared.bus import api

LOW_BYTES, LOW_SHARE = 2 * 1024**3, 0.10
FULL_BYTES, FULL_SHARE = 256 * 1024**2, 0.02
NEAR, REACHED = 0.80, 0.95
WHY_FULL = "on a full disk writes get no answer at all, and nothing goes on"
FIX = "free space, or move the server's store_dir; `noetlctl admin purge --older 30d` removes old results"


class Free(Struct, frozen=True):
    free: int
    total: int
    where: str


class Limit(Struct, frozen=True):
    """`whose`: the account's or the server's."""

    used: int
    limit: int
    whose: str


async def look(patient: Patient) -> list[Finding]:
    store = patient.files.store()
    free = None
    if store is not None and store.exists():
        stat = os.statvfs(store)
        free = Free(stat.f_bavail * stat.f_frsize, stat.f_blocks * stat.f_frsize, str(store))
    return [space(free), limits(await _limits(patient)), writes(await patient.files.health())]


async def _limits(patient: Patient) -> list[Limit]:
    info = await patient.bus.requests.api(api.INFO)
    found = []
    if info["limits"]["max_storage"] >= 0:
        found.append(Limit(int(info["storage"]), int(info["limits"]["max_storage"]), "the account's"))
    varz = await patient.varz()
    jetstream = (varz or {}).get("jetstream") or {}
    if jetstream.get("config", {}).get("max_storage", 0) > 0:
        found.append(Limit(int(jetstream["stats"]["storage"]), int(jetstream["config"]["max_storage"]), "the server's"))
    return found


def space(free: Free | None) -> Finding:
    name = "disk.space"
    if free is None:
        return skipped(name, "where the broker keeps its files cannot be seen from here: it is none of `noetlctl up`",
                       "watch the free space of its store_dir where it runs")
    share = free.free / free.total
    found = f"{size(free.free)} free of {size(free.total)} ({share:.0%}) at {free.where}"
    if free.free < FULL_BYTES or share < FULL_SHARE:
        return problem(name, found, WHY_FULL, FIX)
    if free.free < LOW_BYTES or share < LOW_SHARE:
        return warning(name, found, WHY_FULL, FIX)
    return ok(name, found)


def limits(known: list[Limit]) -> Finding:
    name = "disk.limits"
    if not known:
        found = "the account has no limit, and the server's cannot be seen from here"
        return skipped(name, found, "give the server's monitoring address: noetlctl doctor --monitor URL")
    tight = max(known, key=lambda limit: limit.used / limit.limit if limit.limit else 1.0)
    share = tight.used / tight.limit if tight.limit else 1.0
    found = f"{size(tight.used)} used of {size(tight.limit)} ({share:.0%}), {tight.whose} limit"
    if share < NEAR:
        return ok(name, found)
    why = "at the limit the broker refuses every record, and nothing goes on"
    make = problem if share >= REACHED else warning
    return make(name, found, why, "raise max_file_store of the server or the account; " + FIX)


def writes(health: dict[str, object] | None) -> Finding:
    name = "disk.writes"
    if health is None:
        found = "whether the broker can write to its files cannot be seen from here"
        return skipped(name, found, "give the server's monitoring address: noetlctl doctor --monitor URL")
    error = str(health.get("error", ""))
    if WRITE_ERROR in error:
        why = "it does not write to that stream again by itself, however much space there is"
        return problem(name, error, why, "free space, then restart the server (`noetlctl up` restarts its own)")
    return ok(name, "the broker writes to its files")
