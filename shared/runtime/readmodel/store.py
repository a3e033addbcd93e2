"""One batch, one transaction: lock the partition's cursor, load, fold, write, move the cursor.

1. Rows and cursor change together or not at all. So the read model always is what the log says up to the cursor. A
   crash at any point is a batch that was not projected, and the log gives it again; that is also why commits need not
   wait for the disk (`database.py`).
2. The row of the cursor is the lock of its partition: two projectors take turns. Whoever gets it and finds the cursor
   not where it left off has been overtaken, or its own commit whose answer was lost was applied, or somebody rebuilds.
   It does not matter which: `Moved`, and it follows again from where the cursor is.
3. Only the rows that a batch may change are loaded (`touched_rows.py`), and the fold is pure
   (`shared/answers/readmodel/fold.py`). It has to load every row that the fold may read: a missing one would look new.
   Those of executions seen from their first record on are in memory, as they are at this cursor (`live_rows.py`).
4. One bad message must not stop a partition. A batch that PostgreSQL refuses for its values is halved until the culprit
   is alone; that one goes to `corrupt`, and the cursor passes it in the same transaction. What passes by itself (no
   connection, no space) is not refused: `database.py` tries the whole transaction again.
5. Forged records are nothing to any reader, and the services leave a dead letter of them: they are skipped, not kept.
6. A projector of another version may change the schema at any time (`schema.py`). So whoever has the lock of a
   partition looks whether the schema is still the one it knows, `schema`, before it writes.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress

import asyncpg
import structlog

from shared.answers.readmodel.entry import Entry, read
from shared.answers.readmodel.fold import fold
from shared.bus.ports import Message
from shared.errors import Corrupt, Forged, Signal
from shared.runtime.readmodel.failures import REFUSED
from shared.runtime.readmodel.live_rows import LiveRows
from shared.runtime.readmodel.statements import SQL
from shared.runtime.readmodel.stored_rows import load, write

log = structlog.get_logger()
ANY = 0  # version of the schema: it is not looked at


class Moved(Signal):
    """Not an error: the cursor is not where this reader left it (rule 2), or the schema is another (rule 6). Look at
    the schema, and follow again from where the cursor is."""


async def cursor_of(connection: asyncpg.Connection, partition: int) -> int:
    return int(await connection.fetchval("SELECT seq FROM noetl.cursor WHERE partition = $1", partition) or 0)


async def project(
    connection: asyncpg.Connection, partition: int, partitions: int, messages: Sequence[Message], after: int,
    live: LiveRows | None = None, schema: int = ANY,
) -> None:
    """Consecutive messages of the partition, the first being the next one after `after`. `live` is of this partition.

    What cannot be read or stored goes to `corrupt` (rule 4).
    """
    live = live if live is not None else LiveRows()
    try:
        await _transact(connection, partition, partitions, messages, after, live, schema)
    except (Corrupt, *REFUSED) as error:
        if len(messages) == 1:
            await _set_aside(connection, partition, messages[0], after, str(error), schema)
            live.at(after).moved(messages[0].seq)
            return
        half = len(messages) // 2
        await project(connection, partition, partitions, messages[:half], after, live, schema)
        await project(connection, partition, partitions, messages[half:], messages[half - 1].seq, live, schema)


async def _transact(
    connection: asyncpg.Connection, partition: int, partitions: int, messages: Sequence[Message], after: int,
    live: LiveRows, schema: int,
) -> None:
    entries = list(_entries(messages, partitions))
    async with connection.transaction():
        await _lock(connection, partition, after, schema)
        loaded = await load(connection, entries, live.at(after))
        for entry in entries:
            fold(loaded.rows, entry)
        await write(connection, loaded.rows, loaded.was)
        await connection.execute(SQL["move_cursor"], partition, messages[-1].seq)
    live.committed(loaded.rows, loaded.new, messages[-1].seq)


def _entries(messages: Sequence[Message], partitions: int) -> Iterator[Entry]:
    """Without forged records (rule 5)."""
    for message in messages:
        with suppress(Forged):
            yield read(message, partitions)


async def _lock(connection: asyncpg.Connection, partition: int, after: int, schema: int) -> None:
    row = await connection.fetchrow(SQL["lock_cursor"], partition)
    assert row is not None, "a cursor is made with its partition"
    if row["seq"] != after:
        raise Moved(f"the cursor of partition {partition} is at {row['seq']}, not at {after}")
    if schema not in (ANY, row["schema"]):
        raise Moved(f"the schema has version {row['schema']}, not {schema}")


async def _set_aside(
    connection: asyncpg.Connection, partition: int, message: Message, after: int, error: str, schema: int
) -> None:
    log.error("projector.corrupt", partition=partition, seq=message.seq, subject=message.subject, error=error)
    async with connection.transaction():
        await _lock(connection, partition, after, schema)
        values = (partition, message.seq, message.subject, message.data, error)
        await connection.execute(SQL["insert_corrupt"], *values)
        await connection.execute(SQL["move_cursor"], partition, message.seq)
