"""What `doctor` says: one finding for each check."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

Status = Literal["ok", "skipped", "warning", "problem"]
STATUSES: tuple[Status, ...] = ("ok", "skipped", "warning", "problem")  # from best to worst


class Finding(Struct, frozen=True):
    """`name` never changes; `found` is what is so, `why` what follows from it, `fix` what to do about it."""

    name: str
    status: Status
    found: str
    why: str = ""
    fix: str = ""


def ok(name: str, found: str) -> Finding:
    return Finding(name, "ok", found)


def skipped(name: str, found: str, fix: str = "") -> Finding:
    """It could not be looked at, which is no trouble by itself."""
    return Finding(name, "skipped", found, fix=fix)


def warning(name: str, found: str, why: str, fix: str) -> Finding:
    return Finding(name, "warning", found, why, fix)


def problem(name: str, found: str, why: str, fix: str) -> Finding:
    return Finding(name, "problem", found, why, fix)


def worst(findings: Iterable[Finding]) -> Status:
    return max((finding.status for finding in findings), key=STATUSES.index, default="ok")


def duration(seconds: float) -> str:
    """`12 s`, `3 min`, `5 h`: as exact as a reader needs."""
    for limit, size, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}" if seconds >= 10 or unit != "s" else f"{seconds:.1f} s"
    return f"{seconds / 86_400:.0f} days"


def size(amount: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"
