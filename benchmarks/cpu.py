"""CPU time from /proc: of a process with its children, and of the whole machine."""

import os
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def used_s(pid: int) -> float:
    """User and system time of a process and its descendants, also those that have ended, in seconds."""
    return sum(map(_ticks, _family(pid))) / TICKS_PER_S


def rss_mb(pid: int) -> float:
    """Resident memory of a process and its living descendants."""
    pages = sum(int(Path(f"/proc/{each}/statm").read_text().split()[1]) for each in _family(pid))
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


def busy_s() -> float:
    """Time all cores together were not idle, in seconds."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = _machine()
    return (user + nice + system + irq + softirq + steal) / TICKS_PER_S


def _machine() -> list[int]:
    first = Path("/proc/stat").read_text().split("\n", 1)[0]
    return [int(field) for field in first.split()[1:9]]


def _family(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return [pid]
    return [pid, *(each for child in children for each in _family(int(child)))]


def _ticks(pid: int) -> int:
    """Fields 14 to 17 of /proc/<pid>/stat, counted after the name, which may hold spaces: the last two are of children
    that have ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    fields = stat.rpartition(")")[2].split()
    return sum(map(int, fields[11:15]))
