"""The view `noetl.event` beside the envelopes of `shared/events`: one row per event, value by value."""

import random
from collections.abc import Sequence
from datetime import datetime
from typing import Any, get_args

import asyncpg
import msgspec
import pytest

from shared.answers.readmodel.entry import Entry
from shared.answers.readmodel.fold import fold
from shared.answers.readmodel.rows import Execution, Rows
from shared.answers.readmodel.tables import tables
from shared.events import model as ev
from shared.events.outcome import Result, failed, ok
from shared.events.record import Lease, Record, Writer, event_type, trace_id
from shared.events.stamp import stamp
from shared.runtime.readmodel import event_types
from shared.runtime.readmodel.schema import migrate
from shared.runtime.readmodel.stored_rows import write
from tests.integration.projector.history import PARTITIONS, Log, Story, lease, page, random_story
from tests.integration.projector.tables import columns_of, dump, folded
from tests.integration.projector.test_projection import project_all
from tests.support.generated import value_of

KINDS = get_args(ev.Event)
WRITERS: tuple[Writer, ...] = ("router", "scheduler", "control")
LEASED: tuple[Writer, ...] = ("worker", "iteration", "waiting")


async def stored(db: asyncpg.Connection, entries: Sequence[Entry], repeated: Sequence[str] = ()) -> None:
    """Just the records, whatever they say."""
    rows = Rows(records=list(entries), repeated=set(repeated))
    for entry in entries:
        eid = entry.record.execution_id
        rows.executions[eid] = Execution(eid, 0, entry.at, entry.at, trace_id=trace_id(eid))
    await write(db, rows, Rows())


async def shown(db: asyncpg.Connection) -> list[dict[str, Any]]:
    assert list(await columns_of(db, "event")) == [
        "execution_id", "event_id", "event_type", "ts", "n", "source", "entity_type", "entity_id", "status",
        "step_run_id", "task_run_id", "trace_id", "parent_id", "partition", "seq", "payload",
    ]  # fmt: skip
    found = [dict(row) for row in await db.fetch("SELECT * FROM noetl.event")]
    return _plain(found)


def wanted(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    return _plain(tables(Rows(records=list(entries)))["event"])


def _plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    decoded = [{**row, "payload": msgspec.json.decode(row["payload"])} for row in rows]
    return sorted(decoded, key=lambda row: (row["seq"], row["n"], row["event_id"]))


def entry(seq: int, record: Record) -> Entry:
    return Entry(seq % PARTITIONS, seq, datetime.fromisoformat(record.ts), record)


def recorded(seq: int, rng: random.Random, *events: ev.Event) -> Entry:
    """In an execution of its own, by a writer of any kind."""
    held = None
    writer = rng.choice(WRITERS)
    if rng.random() < 0.5:
        writer, epoch = rng.choice(LEASED), (rng.randrange(1, 2**62), rng.randrange(1, 9))
        held = Lease(rng.choice(("fetch:1", "é-x:2")), "fetch", epoch, "w", rng.choice((-4, -2, -1, 0, 7)))
    source = rng.choice(("", "child-7")) if writer == "control" else ""
    n, as_of = rng.choice((1, 9, 2**40)), rng.choice((0, 0, 17))
    at = stamp(1_700_000_000 + seq / 7)
    return entry(seq, Record(f"x{seq}", writer, n, at, events, as_of=as_of, lease=held, source=source))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__struct_config__.tag)
async def test_events_of_a_type_are_shown_as_their_envelopes(db: asyncpg.Connection, kind: type[ev.Event]) -> None:
    rng = random.Random(str(kind.__struct_config__.tag))
    entries = [recorded(seq, rng, value_of(kind, rng)) for seq in range(1, 41)]
    await stored(db, entries)
    assert await shown(db) == wanted(entries)


@pytest.mark.parametrize("seed", range(5))
async def test_records_of_any_events_are_shown_as_their_envelopes(db: asyncpg.Connection, seed: int) -> None:
    rng = random.Random(seed)
    entries = []
    for seq in range(1, 101):
        events = [value_of(rng.choice(KINDS), rng) for _ in range(rng.randrange(1, 6))]
        entries.append(recorded(seq, rng, *events))
    several = [e.record.execution_id for e in entries if e.record.source]  # its events have one id
    await stored(db, entries, several)
    assert await shown(db) == wanted(entries)


STATUSES: list[tuple[ev.Event, str]] = [
    *((kind(status), status_) for kind in (ev.PlaybookProcessed, ev.WorkflowFinished)
      for status, status_ in (("completed", "success"), ("failed", "error"), ("cancelled", "skipped"))),
    (ev.RequestEvaluated("d"), "success"),
    (ev.RequestEvaluated("d", {}), "success"),
    (ev.RequestEvaluated("d", {"kind": "request"}), "error"),
    (ev.TaskDone("a", 1, ok(1), "continue"), "success"),
    (ev.TaskDone("a", 1, failed("broken", "no"), "fail"), "error"),
    (ev.PlaybookCompensating("failed", {}, "2030-01-01T00:00:00Z"), "in_progress"),
    (ev.ChildEnded("r:1", "w", "c", "failed"), "success"),
]  # fmt: skip


async def test_statuses_are_those_of_the_envelope(db: asyncpg.Connection) -> None:
    rng = random.Random(0)
    entries = [recorded(seq, rng, event) for seq, (event, _) in enumerate(STATUSES, 1)]
    await stored(db, entries)
    assert [row["status"] for row in await shown(db)] == [status for _, status in STATUSES]
    assert await shown(db) == wanted(entries)


def disturbed(seed: int) -> Log:
    """Records that come again, also with others before or in place of them, also under another number."""
    rng, log = random.Random(seed), Log()
    for i in range(8):
        story = random_story(f"y{seed}-{i}", rng)
        for _ in range(rng.randrange(4)):
            record = rng.choice(story)
            n = rng.choice((record.n, record.n, max(1, record.n - 1), record.n + 1))
            again = msgspec.structs.replace(record, n=n, ts=stamp(1_800_000_000))
            story.insert(rng.randrange(len(story) + 1), again)
        for record in story:
            log.write(record)
    return log


@pytest.mark.parametrize("seed", range(12))
async def test_an_event_is_shown_once_however_often_it_is_recorded(db: asyncpg.Connection, seed: int) -> None:
    log = disturbed(seed)
    await project_all(db, log, random.Random(seed))
    assert await dump(db) == await folded(db, log)
    twice = "SELECT execution_id, event_id FROM noetl.event GROUP BY 1, 2 HAVING count(*) > 1"
    assert await db.fetch(twice) == []


def plain_story() -> Story:
    story, held = Story("z"), lease()
    story.begin()
    story.schedule("fetch")
    story.worker(held, ev.StepStarted(), *page(1))
    story.worker(held, *page(2), ev.StepDone(Result(2)))
    story.by("control", ev.PauseRequested("lunch"))
    story.router(ev.NextSelected("fetch:1", "fetch", "step.done"))
    story.schedule("each", loop=True)
    story.scheduler(ev.LoopStarted("each:1", "each", 1, [7]), ev.IterationStarted("each:1", 0, 1))
    story.worker(lease("each", (20, 1), 0), ev.StepStarted(), ev.IterationDone(Result(7)))
    story.scheduler(ev.LoopDone("each:1", "each", Result([7], "loop"), 1))
    story.finish()
    return story


def suspected(records: Sequence[Record]) -> bool:
    rows = Rows()
    for seq, record in enumerate(records, 1):
        fold(rows, entry(seq, record))
    return rows.repeated == {"z"}


def test_only_a_record_that_may_repeat_an_event_makes_the_view_look() -> None:
    records = plain_story().records
    assert not suspected(records)
    for record in records:
        assert suspected([*records, record]), record
        assert suspected([*records, msgspec.structs.replace(record, n=max(1, record.n - 1))]), record


async def test_types_are_written_from_the_code_at_every_start(db: asyncpg.Connection) -> None:
    query = "SELECT event_type, entity_type, status, path, statuses FROM noetl.event_type"
    filled = sorted(tuple(row) for row in await db.fetch(query))
    assert [row[0] for row in filled] == sorted(event_type(value_of(kind, random.Random(0))) for kind in KINDS)
    await db.execute("UPDATE noetl.event_type SET status = 'other'; DELETE FROM noetl.event_type WHERE path IS NULL")
    await migrate(db)
    assert sorted(tuple(row) for row in await db.fetch(query)) == filled
    assert len(event_types.rows()) == len(filled)
