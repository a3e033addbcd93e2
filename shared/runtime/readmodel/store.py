"""One batch, one transaction: lock the partition's cursor, load, fold, write, move the cursor.

1. Rows and cursor change together or not at all. So the read model always is what the log says up to the cursor. A
   crash at any point is a batch that was not projected, and the log gives it again; that is also why commits need not
   wait for the disk (`database.py`).
2. The row of the cursor is the lock of its partition: two projectors take turns. Whoever gets it and finds the cursor
   not where it left off has been overtaken, or its own commit whose answer was lost was applied, or somebody rebuilds.
   It does not matter which: `Moved`, and it follows again from where the cursor is.
3. Only the rows that a batch may change are loaded (`touched_rows.py`), and the fold is pure
   (`shared/answers/readmodel/fold.py`). It has to load every row that the fold may read: a missing one would look new.
4. One bad message must not stop a partition. A batch that PostgreSQL refuses for its values is halved until the culprit
   is alone; that one goes to `corrupt`, and the cursor passes it in the same transaction. What passes by itself (no
   connection, no space) is not refused: `database.py` tries the whole transaction again.
5. Forged records are nothing to any reader, and the services leave a dead letter of them: they are skipped, not kept.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import structlog
from msgspec import Struct

from shared.answers.readmodel.entry import Entry, read
from shared.answers.readmodel.fold import fold
from shared.answers.readmodel.rows import Ctx, Execution, Loop, Rows, Run, ctx_values
from shared.bus.ports import Message
from shared.errors import Corrupt, Forged, Signal
from shared.events.run_index import is_iteration
from shared.runtime.readmodel.failures import REFUSED
from shared.runtime.readmodel.touched_rows import Touched

QUERIES = Path(__file__).parent / "queries"


def _texts(folder: Path) -> dict[str, str]:
    return {path.stem: path.read_text() for path in sorted(folder.glob("*.sql"))}


def _composed(text: str, parts: Mapping[str, str]) -> str:
    """What several statements have in common stands in `queries/parts`, and as {its name} in them: step-runs and
    iterations are tables of their own, written from the same columns by the same rule."""
    for name, part in parts.items():
        text = text.replace(f"{{{name}}}", part.rstrip())
    return text


SQL = {name: _composed(text, _texts(QUERIES / "parts")) for name, text in _texts(QUERIES).items()}

log = structlog.get_logger()


class Moved(Signal):
    """Not an error: the cursor is not where this reader left it (rule 2). Follow again from where it is."""


async def cursor_of(connection: asyncpg.Connection, partition: int) -> int:
    return int(await connection.fetchval("SELECT seq FROM noetl.cursor WHERE partition = $1", partition) or 0)


async def project(
    connection: asyncpg.Connection, partition: int, partitions: int, messages: Sequence[Message], after: int
) -> None:
    """Consecutive messages of the partition, the first being the next one after `after`.

    What cannot be read or stored goes to `corrupt` (rule 4).
    """
    try:
        await _transact(connection, partition, partitions, messages, after)
    except (Corrupt, *REFUSED) as error:
        if len(messages) == 1:
            await _set_aside(connection, partition, messages[0], after, str(error))
            return
        half = len(messages) // 2
        await project(connection, partition, partitions, messages[:half], after)
        await project(connection, partition, partitions, messages[half:], messages[half - 1].seq)


async def _transact(
    connection: asyncpg.Connection, partition: int, partitions: int, messages: Sequence[Message], after: int
) -> None:
    entries = list(_entries(messages, partitions))
    async with connection.transaction():
        await _lock(connection, partition, after)
        rows = await _load(connection, entries)
        for entry in entries:
            fold(rows, entry)
        await _write(connection, rows)
        await connection.execute(SQL["move_cursor"], partition, messages[-1].seq)


def _entries(messages: Sequence[Message], partitions: int) -> Iterator[Entry]:
    """Without forged records (rule 5)."""
    for message in messages:
        with suppress(Forged):
            yield read(message, partitions)


async def _lock(connection: asyncpg.Connection, partition: int, after: int) -> None:
    seq = await connection.fetchval(SQL["lock_cursor"], partition)
    if seq != after:
        raise Moved(f"the cursor of partition {partition} is at {seq}, not at {after}")


async def _set_aside(
    connection: asyncpg.Connection, partition: int, message: Message, after: int, error: str
) -> None:
    log.error("projector.corrupt", partition=partition, seq=message.seq, subject=message.subject, error=error)
    async with connection.transaction():
        await _lock(connection, partition, after)
        values = (partition, message.seq, message.subject, message.data, error)
        await connection.execute(SQL["insert_corrupt"], *values)
        await connection.execute(SQL["move_cursor"], partition, message.seq)


async def _load(connection: asyncpg.Connection, entries: Iterable[Entry]) -> Rows:
    touched = Touched()
    for entry in entries:
        touched.add(entry.record)
    rows = Rows()

    async def load(query: str, keys: Iterable[tuple[Any, ...]]) -> list[asyncpg.Record]:
        columns = list(zip(*keys, strict=True))
        return await connection.fetch(SQL[query], *columns) if columns else []

    for row in await load("load_executions", ((key,) for key in touched.executions)):
        rows.executions[row["execution_id"]] = Execution(**row)
    for row in await load("load_step_runs", (key[:2] for key in touched.runs if not is_iteration(key[2]))):
        rows.runs[row["execution_id"], row["run_id"], -1] = Run(**row)
    for row in await load("load_iterations", (key for key in touched.runs if is_iteration(key[2]))):
        rows.runs[row["execution_id"], row["run_id"], row["iteration"]] = Run(**row)
    for row in await load("load_loops", touched.loops):
        rows.loops[row["execution_id"], row["run_id"]] = Loop(**row)
    for row in await load("load_ctx", touched.ctx):
        value = msgspec.json.decode(row["value"])
        rows.ctx[row["execution_id"], row["key"]] = Ctx(row["execution_id"], row["key"], value, row["seq"])
    return rows


async def _write(connection: asyncpg.Connection, rows: Rows) -> None:
    async def write(query: str, values: Iterable[tuple[Any, ...]]) -> None:
        columns = list(zip(*values, strict=True))
        if columns:
            await connection.execute(SQL[query], *columns)

    runs = rows.runs.values()
    await write("insert_events", rows.events.values())
    await write("upsert_executions", _tuples(rows.executions.values()))
    await write("upsert_step_runs", _tuples(run for run in runs if not is_iteration(run.iteration)))
    await write("upsert_iterations", _tuples(run for run in runs if is_iteration(run.iteration)))
    await write("upsert_loops", _tuples(rows.loops.values()))
    await write("upsert_task_runs", _tuples(rows.tasks.values()))
    await write("upsert_ctx", (ctx_values(row) for row in rows.ctx.values()))
    # A loop that ended ends its iterations. Those in this batch the fold has ended; the others only SQL can find.
    if rows.endings:
        ended = [list(column) for column in zip(*_tuples(rows.endings), strict=True)]
        folded = [list(column) for column in zip(*rows.runs, strict=True)]
        await connection.execute(SQL["cancel_iterations"], *ended, *folded)
        await connection.execute(SQL["lose_tasks"], *ended, *folded)


def _tuples(rows: Iterable[Struct]) -> Iterable[tuple[Any, ...]]:
    return map(msgspec.structs.astuple, rows)
