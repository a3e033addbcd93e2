"""Which promise holds when something dies: how often the broker syncs its files, and how many copies there are."""

from typing import Any

from msgspec import Struct

from services.cli.doctor.finding import Finding, duration, ok, problem, warning
from services.cli.doctor.target import Patient
from shared.bus import api, topology
from shared.bus.codes import NotFound

NAME = "log.durability"
DEFAULT_SYNC_S = 120.0
MAJORITY = 3
KILLED = "a killed process loses nothing that was acknowledged"
FIX = "set `sync_interval: always` in the server's jetstream block, or run three servers and three replicas"


class Facts(Struct, frozen=True):
    """`sync_s`: seconds between syncs, 0 is at every write, None is not known. `lazy`: streams whose writes are
    acknowledged before they are handed to the file (`persist_mode: async`)."""

    replicas: int
    sync_s: float | None
    source: str = ""
    lazy: tuple[str, ...] = ()


async def look(patient: Patient) -> list[Finding]:
    configs = []
    for partition in range(patient.settings.partitions):
        try:
            info = await patient.bus.requests.api(api.stream_info(topology.events_stream(partition)))
        except NotFound:
            continue  # reported by the check of the streams
        configs.append(info["config"])
    if not configs:
        return []
    lazy = tuple(config["name"] for config in configs if config.get("persist_mode") == "async")
    sync_s, source = await _sync(patient)
    return [judge(Facts(min(int(config["num_replicas"]) for config in configs), sync_s, source, lazy))]


async def _sync(patient: Patient) -> tuple[float | None, str]:
    varz = await patient.varz()
    if varz is not None:
        return from_varz(varz), "said by the server"
    config = patient.server_config()
    if config:
        always = config.get("jetstream", {}).get("sync_interval") == "always"
        return 0.0 if always else DEFAULT_SYNC_S, "from its configuration file"
    return None, ""


def from_varz(varz: dict[str, Any]) -> float | None:
    config = varz.get("jetstream", {}).get("config") or {}
    if config.get("sync_always"):
        return 0.0
    return config["sync_interval"] / 1e9 if "sync_interval" in config else None


def judge(facts: Facts) -> Finding:
    if facts.lazy:
        why = "a record that was acknowledged may be gone when the server process dies"
        fix = "make the stream anew without persist_mode async: back up, restore, and set it to default"
        return problem(NAME, f"written behind: {', '.join(facts.lazy)}", why, fix)
    copies = f"{facts.replicas} replica{'s' if facts.replicas > 1 else ''}"
    if facts.sync_s == 0.0:
        return ok(NAME, f"{copies}, synced at every write ({facts.source}): a power cut loses nothing acknowledged")
    if facts.replicas >= MAJORITY:
        return ok(NAME, f"{copies}: the loss of a server loses nothing; only a power cut of most of them at once can")
    if facts.sync_s is None:
        found = f"{copies}; how often the server syncs its files cannot be seen from here"
        why = f"certain is only: {KILLED}. By default a power cut may lose {duration(DEFAULT_SYNC_S)}"
        return warning(NAME, found, why, "give the server's monitoring address: noetlctl doctor --monitor URL")
    found = f"{copies}, synced every {duration(facts.sync_s)} ({facts.source})"
    why = f"{KILLED}; a power cut may lose the last {duration(facts.sync_s)}"
    return warning(NAME, found, why, FIX)
