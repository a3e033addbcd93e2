"""Findings that follow from a store that accepts no writes: nobody can say there that they are there. What stops the
writes comes first, and nobody is blamed for silence."""

from collections.abc import Iterable

from msgspec.structs import replace

from services.cli.doctor.finding import Finding
from services.cli.doctor.members import UNATTENDED

AREA = "disk."
FOLLOWS = ("members.pool.", "members.health", "lag.")
WHY = "follows from the broker's store, which accepts no writes: nobody can report there, nor go on"
FIX = "see to the disk first (above), then look again"
BAD = ("warning", "problem")


def explained(findings: Iterable[Finding], refusal: str) -> list[Finding]:
    """`refusal`: why the store accepts no writes; empty: it does."""
    found = list(findings)
    if not refusal:
        return found
    disk = [finding for finding in found if finding.name.startswith(AREA)]
    return [*disk, *(_follows(finding) for finding in found if finding not in disk)]


def _follows(finding: Finding) -> Finding:
    if finding.status not in BAD or not finding.name.startswith(FOLLOWS):
        return finding
    return replace(finding, found=finding.found.replace(UNATTENDED, "no pools service is heard of"), why=WHY, fix=FIX)
