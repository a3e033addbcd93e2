"""What earlier versions wrote, in PostgreSQL: the rows are those that a fold of the log gives (ADR 50)."""

import asyncpg
import pytest

from shared.bus.ports import Message
from shared.events import subjects
from shared.runtime.readmodel.store import project
from tests.golden import files
from tests.integration.projector.history import Log
from tests.integration.projector.tables import dump, folded


@pytest.mark.parametrize("version", files.versions())
async def test_the_log_of_an_earlier_version_is_projected(db: asyncpg.Connection, version: str) -> None:
    recorded = files.recorded(version, "stack")
    log = Log(recorded.partitions)
    for line in recorded.lines:
        if line.subject.startswith(f"{subjects.EVENTS}."):
            held = log.messages(subjects.parse_event(line.subject).partition)
            held.append(Message(line.subject, line.data, line.seq, None, line.at))
    for partition in range(recorded.partitions):
        await project(db, partition, recorded.partitions, log.messages(partition), 0)
    assert await db.fetchval("SELECT count(*) FROM noetl.corrupt") == 0
    wanted = await folded(db, log)
    assert await dump(db) == wanted
    assert len(wanted["execution"]) > 20
