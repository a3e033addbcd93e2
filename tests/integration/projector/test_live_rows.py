"""With rows kept in memory the tables are the same, whoever else writes them and whatever fails in between."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
import pytest

from shared.bus.ports import Message
from shared.events import model as ev
from shared.events.outcome import Result
from shared.runtime.readmodel.live_rows import LiveRows
from shared.runtime.readmodel.store import Moved, cursor_of, project
from tests.integration.projector.history import PARTITIONS, Log, Story, lease, page, random_log
from tests.integration.projector.tables import dump, folded


@contextmanager
def asked(db: asyncpg.Connection) -> Iterator[list[str]]:
    """The statements that read rows."""
    found: list[str] = []

    def note(query: asyncpg.connection.LoggedQuery) -> None:
        if query.query.startswith("SELECT"):
            found.append(query.query)

    with db.query_logger(note):
        yield found


def written(story: Story) -> Log:
    log = Log(1)
    for record in story.records:
        log.write(record)
    return log


def started() -> Story:
    story = Story("e")
    story.begin()
    story.schedule("fetch")
    story.worker(lease(), ev.StepStarted(), *page(1))
    return story


async def test_nothing_is_read_back_of_an_execution_seen_from_the_beginning(db: asyncpg.Connection) -> None:
    story = started()
    story.worker(lease(), *page(2), ev.StepDone(Result(2)))
    log, live = written(story), LiveRows()
    messages = log.messages(0)
    await project(db, 0, 1, messages[:2], 0, live)
    with asked(db) as queries:
        await project(db, 0, 1, messages[2:3], 2, live)
        await project(db, 0, 1, messages[3:], 3, live)
    assert queries == []
    assert await dump(db) == await folded(db, log)
    with asked(db) as queries:
        await project(db, 0, 1, [log.write(story.router(ev.WorkflowFinished()))], 4, LiveRows())
    assert len(queries) == 1
    assert await dump(db) == await folded(db, log)


@pytest.mark.parametrize("seed", range(4))
async def test_two_projectors_in_turns_leave_the_same_tables(db: asyncpg.Connection, seed: int) -> None:
    rng, log = random.Random(seed), random_log(seed)
    memories = [{partition: LiveRows() for partition in range(PARTITIONS)} for _ in range(2)]
    for partition in range(PARTITIONS):
        while batch := log.messages(partition)[await cursor_of(db, partition) :][: rng.randrange(1, 20)]:
            live = rng.choice(memories)[partition]
            await project(db, partition, PARTITIONS, batch, batch[0].seq - 1, live)
    assert await dump(db) == await folded(db, log)


async def test_what_a_transaction_left_undone_is_not_remembered(db: asyncpg.Connection) -> None:
    log, live = written(started()), LiveRows()
    await project(db, 0, 1, log.messages(0)[:2], 0, live)
    await db.execute("UPDATE noetl.cursor SET seq = 1")
    with pytest.raises(Moved):
        await project(db, 0, 1, log.messages(0)[2:], 2, live)
    await db.execute("UPDATE noetl.cursor SET seq = 2")
    await project(db, 0, 1, log.messages(0)[2:], 2, live)
    assert await dump(db) == await folded(db, log)


async def test_a_refused_record_is_set_aside_and_the_rest_is_remembered(db: asyncpg.Connection) -> None:
    log, live = written(started()), LiveRows()
    story = started()
    too_large = story.router(ev.CtxPatched("fetch:1", {random.Random(1).randbytes(5000).hex(): 1}))
    refused = log.write(too_large)
    after = [log.write(story.worker(lease(), *page(2))), log.write(story.worker(lease(), *page(3)))]
    await project(db, 0, 1, log.messages(0), 0, live)
    rows = await db.fetch("SELECT seq FROM noetl.corrupt")
    assert [row["seq"] for row in rows] == [refused.seq]
    assert live.seq == after[-1].seq
    with asked(db) as queries:
        await project(db, 0, 1, [log.write(story.worker(lease(), ev.StepDone(Result(3))))], after[-1].seq, live)
    assert queries == []
    others: list[Message] = [message for message in log.messages(0) if message.seq != refused.seq]
    log.streams["NOETL_EVENTS_0"] = others
    assert await dump(db) == await folded(db, log)
