import random
from collections.abc import Mapping

import asyncpg
import pytest

from shared.bus.ports import Message
from shared.runtime.readmodel.live_rows import LiveRows
from shared.runtime.readmodel.store import Moved, cursor_of, project
from tests.integration.projector.history import PARTITIONS, Log, random_log
from tests.integration.projector.tables import dump, folded


async def project_all(
    db: asyncpg.Connection, log: Log, rng: random.Random, live: Mapping[int, LiveRows] | None = None
) -> None:
    """In batches of any size, the partitions in any order; with what one projector keeps in memory, or without."""
    at = dict.fromkeys(range(log.partitions), 0)
    while at:
        partition = rng.choice(list(at))
        after = at[partition]
        batch = log.messages(partition)[after : after + rng.randrange(1, 30)]
        if not batch:
            del at[partition]
            continue
        await project(db, partition, log.partitions, batch, after, live[partition] if live else None)
        at[partition] = batch[-1].seq


@pytest.mark.parametrize("is_held", [False, True])
@pytest.mark.parametrize("seed", range(6))
async def test_projection_equals_a_pure_fold_of_the_log(db: asyncpg.Connection, seed: int, is_held: bool) -> None:
    log = random_log(seed)
    live = {partition: LiveRows() for partition in range(PARTITIONS)} if is_held else None
    await project_all(db, log, random.Random(seed), live)
    assert await dump(db) == await folded(db, log)
    assert await db.fetchval("SELECT count(*) FROM noetl.corrupt") == 0


async def test_a_batch_again_under_the_cursor_is_refused_and_changes_nothing(db: asyncpg.Connection) -> None:
    log = random_log(1)
    batch = log.messages(0)
    await project(db, 0, PARTITIONS, batch, 0)
    before = await dump(db, "cursor")
    with pytest.raises(Moved):
        await project(db, 0, PARTITIONS, batch, 0)
    assert await dump(db, "cursor") == before


async def test_a_batch_again_after_its_cursor_was_lost_leaves_the_same_tables(db: asyncpg.Connection) -> None:
    log = random_log(2)
    batch = log.messages(0)
    await project(db, 0, PARTITIONS, batch, 0)
    before = await dump(db, "cursor")
    await db.execute("UPDATE noetl.cursor SET seq = 0")
    await project(db, 0, PARTITIONS, batch, 0)
    assert await dump(db, "cursor") == before


async def test_an_unreadable_record_is_set_aside_and_the_rest_goes_on(db: asyncpg.Connection) -> None:
    log = random_log(3)
    good = log.messages(0)
    bad = {
        3: b"not json",
        7: b'{"execution_id":"e","writer":"router","n":1,"ts":"2024-01-01T00:00:00Z","events":[{"event_type":"x"}]}',
        8: b'{"execution_id":"e","writer":"router","n":1,"ts":"noon","events":[]}',
        9: b'{"execution_id":"e","writer":"router","n":1,"ts":"2024-01-01T00:00:00","events":[]}',
        12: b'{"execution_id":"f","writer":"router","n":1,"ts":"2024-01-01T00:00:00Z","events":[]}',
        13: b'{"execution_id":"e","writer":"worker","n":1,"ts":"2024-01-01T00:00:00Z","events":[]}',
        14: b"[" * 5000,
    }
    mixed: list[Message] = []
    for message in good:
        while (seq := len(mixed) + 1) in bad:
            mixed.append(Message("noetl.events.0.e.router", bad[seq], seq))
        mixed.append(Message(message.subject, message.data, seq))
    await project(db, 0, PARTITIONS, mixed, 0)
    rows = await db.fetch("SELECT seq, data, error FROM noetl.corrupt ORDER BY seq")
    assert {row["seq"]: row["data"] for row in rows} == bad
    assert all(row["error"] for row in rows)
    only_good = Log()
    only_good.streams["NOETL_EVENTS_0"] = [message for message in mixed if message.seq not in bad]
    assert await dump(db) == await folded(db, only_good)
    assert await cursor_of(db, 0) == len(mixed)


async def test_a_record_the_database_refuses_is_set_aside(db: asyncpg.Connection) -> None:
    too_long = "p" * 100_000
    head = b'{"execution_id":"e","writer":"router","ts":"2024-01-01T00:00:00Z","n":'
    wide = b'2,"events":[{"event_type":"ctx.patched","run_id":"r","patch":{"%s":1}}]}'
    texts = [b'1,"events":[{"event_type":"workflow.started"}]}', wide % random.Random(1).randbytes(5000).hex().encode(),
             b'3,"events":[{"event_type":"playbook.execution.requested","path":"%s"}]}' % too_long.encode(),
             b'9223372036854775808,"events":[{"event_type":"workflow.started"}]}',
             b'4,"events":[{"event_type":"workflow.finished"}]}']  # fmt: skip
    batch = [Message("noetl.events.0.e.router", head + text, seq) for seq, text in enumerate(texts, 1)]
    await project(db, 0, 1, batch, 0)
    rows = await db.fetch("SELECT seq FROM noetl.corrupt ORDER BY seq")
    assert [row["seq"] for row in rows] == [2, 4]
    events = await db.fetch("SELECT n FROM noetl.event ORDER BY n")
    assert [row["n"] for row in events] == [1, 3, 4]


async def test_characters_postgres_cannot_hold_are_replaced(db: asyncpg.Connection) -> None:
    data = (
        b'{"execution_id":"e","writer":"router","ts":"2024-01-01T00:00:00Z","n":1,"events":'
        b'[{"event_type":"playbook.execution.requested","path":"a\\u0000b","payload":{"\\u0000":"\\\\u0000"}}]}'
    )
    await project(db, 0, 1, [Message("noetl.events.0.e.router", data, 1)], 0)
    assert await db.fetchval("SELECT path FROM noetl.execution") == "a\ufffdb"
    assert await db.fetchval("SELECT payload -> 'payload' ->> '\ufffd' FROM noetl.event") == "\\u0000"
