"""Whether what is old enough goes: the policy, and what the read model says is long past its time."""

from datetime import UTC, datetime

import asyncpg

from services.cli.doctor.database import AWAY, CONNECT_S
from services.cli.doctor.finding import Finding, duration, ok, skipped, warning
from services.cli.doctor.target import Patient
from services.cli.executions.readmodel import words
from shared.runtime.retention.families import Families
from shared.runtime.service.retention import LEAST, margin, shown
from shared.runtime.stores.retention import Policy, policy

NAME, KEEPING = "retention.policy", "retention.kept"
LATE_S = 600.0  # what a pass may take
MAX_ASKED = 200
SHOWN = 5
_OVERDUE = """
SELECT execution_id, finished_at FROM noetl.execution AS e
WHERE finished_at < $1 AND NOT EXISTS (SELECT FROM noetl.purged AS p WHERE p.execution_id = e.execution_id)
ORDER BY finished_at, execution_id LIMIT $2
"""


async def look(patient: Patient) -> list[Finding]:
    now = await policy(patient.bus, patient.settings.retention)
    told = ok(NAME, _told(now))
    if not now.kept.read_model:
        return [told]
    if not patient.settings.postgres_dsn:
        return [told, skipped(KEEPING, "there is no read model: no DSN is set", "set NOETL_POSTGRES_DSN")]
    at = await patient.bus.time()
    late = max(LATE_S, margin(now.kept.read_model))
    before = datetime.fromtimestamp(at - now.kept.read_model - late, UTC)
    if at - late < now.at:
        return [told, ok(KEEPING, "it was changed just now")]
    try:
        overdue, kept = await _overdue(patient.settings.postgres_dsn, before)
    except AWAY as error:
        return [told, skipped(KEEPING, f"PostgreSQL could not be asked: {words(error)}")]
    return [told, keeping(overdue, kept)]


def _told(now: Policy) -> str:
    kept = ", ".join(f"{name} {shown(getattr(now.kept, name))}" for name in LEAST)
    return f"kept: {kept}" + ("" if now.revision else " (by setting)")


async def _overdue(dsn: str, before: datetime) -> tuple[list[str], dict[str, str]]:
    """Executions whose rows should be gone, and those among them that somebody related keeps."""
    connection = await asyncpg.connect(dsn, timeout=CONNECT_S, command_timeout=CONNECT_S)
    try:
        rows = await connection.fetch(_OVERDUE, before, MAX_ASKED)
        families = Families()
        return await families.old(connection, [row["execution_id"] for row in rows], before), families.kept
    finally:
        await connection.close()


def keeping(overdue: list[str], kept: dict[str, str]) -> Finding:
    held = sorted(set(kept.values()))
    who = f"; {len(kept)} more are kept by {', '.join(held[:SHOWN])}{' …' if held[SHOWN:] else ''}" if kept else ""
    if not overdue:
        return ok(KEEPING, f"what is old enough has gone{who}")
    many = f"{MAX_ASKED} or more" if len(overdue) + len(kept) >= MAX_ASKED else str(len(overdue))
    found = f"{many} executions are over {duration(LATE_S)} past their time, such as {overdue[0]}{who}"
    why = "the read model and the results grow beyond what was said"
    return warning(KEEPING, found, why, "look at `retention.failed` in the projector's log")
