"""doctor on a real read model."""

import asyncpg
import pytest

from services.cli.doctor import database
from services.cli.doctor.target import Patient
from shared.bus import topology
from shared.bus.jetstream import JetStreamBus
from shared.events import subjects
from shared.runtime.service.settings import Settings


async def test_a_read_model_tells_what_is_wrong_with_it(
    admin: JetStreamBus, dsn: str, db: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient = Patient(admin, Settings(postgres_dsn=dsn))
    await admin.append(subjects.event(0, "x", "router"), b"{}")

    async def statuses() -> dict[str, str]:
        return {finding.name: finding.status for finding in await database.look(patient)}

    assert set((await statuses()).values()) == {"ok"}
    monkeypatch.setattr(database, "LATE_S", 0.0)
    assert (await statuses())["lag.projector"] == "warning"
    await db.execute("INSERT INTO noetl.corrupt VALUES (0, 1, 's', '', 'no record')")
    await db.execute("INSERT INTO noetl.cursor VALUES (0, 9)")
    await db.execute("DELETE FROM noetl.schema_migration WHERE version = 2")
    assert await statuses() | {} == {
        "postgres.reachable": "ok", "postgres.version": "ok", "postgres.writable": "ok", "postgres.connections": "ok",
        "postgres.migrations": "warning", "postgres.corrupt": "problem", "lag.projector": "problem",
    }  # fmt: skip
    assert await admin.last_seq(topology.events_stream(0)) == 1


async def test_a_database_without_a_read_model_has_nothing_applied(admin: JetStreamBus, dsn: str) -> None:
    found = {finding.name: finding for finding in await database.look(Patient(admin, Settings(postgres_dsn=dsn)))}
    assert found["postgres.migrations"].status == "warning"
    assert found["lag.projector"].status == "ok"
