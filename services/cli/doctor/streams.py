"""Streams, consumers and buckets as the engine wants them."""

from collections.abc import Sequence

from msgspec.structs import replace

from services.cli.doctor.finding import Finding, ok, problem, warning
from services.cli.doctor.target import Patient
from shared.bus import api, topology
from shared.bus.codes import NotFound
from shared.bus.kv import stream_of
from shared.bus.streams import Drift, differences, is_safe
from shared.events import subjects
from shared.runtime.service.provision import provision
from shared.runtime.stores import retention

SHOWN = 5
HARMLESS_MISSING = frozenset({topology.COMMANDS})  # made again by any scheduler
OF_REQUESTS = f"{topology.REQUESTS}/router"


async def look(patient: Patient) -> list[Finding]:
    settings = patient.settings
    wanted = topology.wanted(settings.pools, settings.partitions)
    counts = await _replicas(patient, [topology.events_stream(p) for p in range(settings.partitions)])
    ages = await retention.ages(patient.bus, settings.retention)
    said = replace(provision(settings), replicas=max(counts.values(), default=settings.replicas), max_age_s=ages)
    lost, drifts = await differences(patient.bus, wanted, said)
    others = await _others(patient, settings.partitions)
    return [missing(lost), *drift(drifts), partitions(settings.partitions, others)]


async def _replicas(patient: Patient, names: Sequence[str]) -> dict[str, int]:
    found = {}
    for name in names:
        try:
            found[name] = int((await patient.bus.requests.api(api.stream_info(name)))["config"]["num_replicas"])
        except NotFound:
            continue
    return found


async def _others(patient: Patient, partitions: int) -> list[str]:
    """Event streams beyond those the settings know."""
    answer = await patient.bus.requests.api(api.STREAM_NAMES, {"subject": f"{subjects.EVENTS}.>"})
    known = {topology.events_stream(partition) for partition in range(partitions)}
    return sorted(set(answer.get("streams") or []) - known)


def missing(names: Sequence[str]) -> Finding:
    name = "streams.missing"
    if not names:
        return ok(name, "all streams, consumers and buckets are there")
    found = f"not there: {_list(names)}"
    if all(one.partition("/")[0] in HARMLESS_MISSING for one in names):
        return warning(name, found, "steps of the pool wait until a scheduler has made them, which takes it seconds",
                       "start a scheduler whose NOETL_POOLS names the pool")
    if list(names) == [OF_REQUESTS]:
        return problem(name, found, "new executions wait until a router has made it, which takes it seconds",
                       "start a router; if all of them started after the loss: noetlctl admin bootstrap")
    buckets = {stream_of(bucket.name) for bucket in topology.wanted().buckets}
    lost = "buckets" if all(one in buckets for one in names) else "streams"
    why = f"the engine cannot work without its {lost}"
    return problem(name, found, why, "noetlctl admin bootstrap makes them, and so does `up`; or restore a backup")


def drift(drifts: Sequence[Drift]) -> list[Finding]:
    """Safe settings are changed at the next start; the others weaken a promise and stay until someone acts."""
    name = "streams.drift"
    grave = [each for each in drifts if not is_safe(each)]
    light = [each for each in drifts if is_safe(each)]
    found = []
    if grave:
        why = "a setting that other promises rest on is not as it must be"
        fix = "set it back with your NATS tools; what cannot be changed needs a backup and a restore"
        found.append(problem(name, _list([_text(each) for each in grave]), why, fix))
    if light:
        why = "it differs from what this version wants, and loses nothing"
        fix = "noetlctl admin bootstrap changes it, and so does `noetlctl up`"
        found.append(warning(name, _list([_text(each) for each in light]), why, fix))
    return found or [ok(name, "every setting is as wanted")]


def partitions(wanted: int, others: Sequence[str]) -> Finding:
    name = "streams.partitions"
    if not others:
        return ok(name, f"{wanted} partitions")
    why = "with another number of partitions, executions are looked for in the wrong stream"
    return problem(name, f"{wanted} wanted, and there are also {_list(others)}", why, "set NOETL_PARTITIONS as it was")


def _text(each: Drift) -> str:
    return f"{each.name}: {each.field} is {each.found!r}, wanted {each.wanted!r}"


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return "; ".join(names[:SHOWN]) + more
