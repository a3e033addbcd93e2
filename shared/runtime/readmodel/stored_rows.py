"""The rows of a batch, to and from PostgreSQL.

New rows are copied in as binary, which costs both sides a fraction of a statement with arrays; changed ones are updated
by key; what did not change is not written. Whether a row is new follows from what was known before: everything that a
batch may touch is loaded (`touched_rows.py`), or held in memory (`live_rows.py`). Task-runs are not: the fold knows
which of them it began.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from operator import attrgetter
from typing import Any, Generic, TypeVar

import asyncpg
import msgspec
from msgspec import Struct

from shared.answers.readmodel.entry import Entry
from shared.answers.readmodel.rows import (
    RECORD_GROUP_COLUMNS,
    Ctx,
    Ending,
    Execution,
    Loop,
    LoopKey,
    Rows,
    Run,
    RunKey,
    TaskRun,
    ctx_values,
    record_groups,
)
from shared.events.run_index import RUN, is_iteration
from shared.runtime.readmodel.live_rows import LiveRows
from shared.runtime.readmodel.statements import SQL
from shared.runtime.readmodel.touched_rows import Touched

Values = tuple[Any, ...]
T = TypeVar("T")
K = TypeVar("K")
R = TypeVar("R", bound=Struct)


class Table(Generic[T]):
    """How rows get into a table: copied with all columns, or updated from some of them."""

    def __init__(
        self, name: str, fields: Sequence[str], update: str, changing: Sequence[str] = (),
        values: Callable[[T], Values] | None = None,
    ) -> None:
        self._name, self._update = name, update
        self._columns = [_COLUMNS.get(field, field) for field in fields]
        self._values = values or attrgetter(*fields)
        self._changes = attrgetter(*changing) if changing else self._values

    async def insert(self, connection: asyncpg.Connection, rows: Iterable[T]) -> None:
        await copy_in(connection, self._name, self._columns, list(map(self._values, rows)))

    async def update(self, connection: asyncpg.Connection, rows: Iterable[T]) -> None:
        await execute(connection, self._update, map(self._changes, rows))


_COLUMNS = {"run_id": "step_run_id"}
_RUN = Run.__struct_fields__
_TASK = TaskRun.__struct_fields__
EXECUTIONS = Table[Execution](
    "execution", Execution.__struct_fields__, "update_executions",
    [name for name in Execution.__struct_fields__ if name not in ("partition", "started_at", "trace_id")],
)
ADVANCED = ("execution_id", "updated_at", "seq", "router_n", "scheduler_n", "controls")
_RESTING = attrgetter(*(name for name in Execution.__struct_fields__ if name not in ADVANCED))
STEP_RUNS = Table[Run]("step_run", [name for name in _RUN if name != "iteration"], "update_step_runs", _RUN)
ITERATIONS = Table[Run](
    "iteration", [name for name in _RUN if name not in ("step", "pool", "scheduled_at")], "update_iterations", _RUN
)
LOOPS = Table[Loop]("loop", Loop.__struct_fields__, "update_loops")
TASK_RUNS = Table[TaskRun](
    "task_run", _TASK, "update_task_runs", [name for name in _TASK if name not in ("task_run_id", "task", "attempt")]
)
CTX = Table[Ctx]("ctx", ("execution_id", "key", "value", "updated_seq"), "update_ctx", values=ctx_values)


async def copy_in(connection: asyncpg.Connection, table: str, columns: Sequence[str], rows: list[Values]) -> None:
    if not rows:
        return
    try:
        await connection.copy_records_to_table(table, schema_name="noetl", columns=columns, records=rows)
    except (OverflowError, ValueError) as error:  # a statement would have been refused for such a value
        raise asyncpg.DataError(str(error)) from error


async def execute(connection: asyncpg.Connection, query: str, rows: Iterable[Values]) -> None:
    columns = list(zip(*rows, strict=True))
    if columns:
        await connection.execute(SQL[query], *columns)


class Loaded(Struct):
    """The rows that a batch may touch: to be folded into, as they were (`was`), and those that were not there."""

    rows: Rows
    was: Rows
    new: list[str] = []


async def load(connection: asyncpg.Connection, entries: Sequence[Entry], live: LiveRows) -> Loaded:
    """From memory, and what is not there from PostgreSQL. Of an execution that neither knows there is nothing."""
    was = Rows()
    asked = {entry.record.execution_id for entry in entries}
    for eid in asked:
        if (held := live.of(eid)) is not None:
            was.executions[eid] = held.execution
    unknown = [(eid,) for eid in asked if eid not in was.executions]
    for row in await _fetched(connection, "load_executions", unknown):
        was.executions[row["execution_id"]] = Execution(**row)
    new = [eid for eid in asked if eid not in was.executions]
    touched = Touched()
    for entry in entries:
        if entry.record.execution_id in was.executions:
            touched.add(entry.record)
    await _load_touched(connection, touched, live, was)
    rows = Rows(_copies(was.executions), _copies(was.runs), _copies(was.loops), _copies(was.ctx))
    return Loaded(rows, was, new)


def _copies(rows: Mapping[K, R]) -> dict[K, R]:
    return {key: copy(row) for key, row in rows.items()}


async def _load_touched(connection: asyncpg.Connection, touched: Touched, live: LiveRows, was: Rows) -> None:
    runs, loops = set[RunKey](), set[LoopKey]()
    for key in touched.runs:
        if (held := live.of(key[0])) is None:
            runs.add(key)
        elif (run := held.runs.get(key)) is not None:
            was.runs[key] = run
    for place in touched.loops:
        if (held := live.of(place[0])) is None:
            loops.add(place)
        elif (loop := held.loops.get(place)) is not None:
            was.loops[place] = loop
    for row in await _fetched(connection, "load_step_runs", (key[:2] for key in runs if not is_iteration(key[2]))):
        was.runs[row["execution_id"], row["run_id"], RUN] = Run(**row)
    for row in await _fetched(connection, "load_iterations", (key for key in runs if is_iteration(key[2]))):
        was.runs[row["execution_id"], row["run_id"], row["iteration"]] = Run(**row)
    for row in await _fetched(connection, "load_loops", loops):
        was.loops[row["execution_id"], row["run_id"]] = Loop(**row)
    for row in await _fetched(connection, "load_ctx", touched.ctx):
        value = msgspec.json.decode(row["value"])
        was.ctx[row["execution_id"], row["key"]] = Ctx(row["execution_id"], row["key"], value, row["seq"])


async def _fetched(connection: asyncpg.Connection, query: str, keys: Iterable[Values]) -> list[asyncpg.Record]:
    columns = list(zip(*keys, strict=True))
    return await connection.fetch(SQL[query], *columns) if columns else []


async def write(connection: asyncpg.Connection, rows: Rows, was: Rows) -> None:
    await copy_in(connection, "record_group", RECORD_GROUP_COLUMNS, list(record_groups(rows.records)))
    if rows.repeated:
        await connection.execute(SQL["insert_repeated"], list(rows.repeated))
    await _write_executions(connection, rows, was)
    new, changed = _sorted(rows.runs, was.runs)
    for table, wanted in ((STEP_RUNS, False), (ITERATIONS, True)):
        await table.insert(connection, [run for run in new if is_iteration(run.iteration) is wanted])
        await table.update(connection, [run for run in changed if is_iteration(run.iteration) is wanted])
    await _write_all(connection, LOOPS, rows.loops, was.loops)
    await _write_all(connection, CTX, rows.ctx, was.ctx)
    tasks = rows.tasks.items()
    await TASK_RUNS.insert(connection, [row for key, row in tasks if key in rows.started_tasks])
    await TASK_RUNS.update(connection, [row for key, row in tasks if key not in rows.started_tasks])
    if rows.endings:
        await _end_loops(connection, rows)


async def _write_executions(connection: asyncpg.Connection, rows: Rows, was: Rows) -> None:
    """Most of them have only got further."""
    new, changed = _sorted(rows.executions, was.executions)
    await EXECUTIONS.insert(connection, new)
    advanced, others = list[Execution](), list[Execution]()
    for row in changed:
        only = _RESTING(row) == _RESTING(was.executions[row.execution_id])
        (advanced if only else others).append(row)
    await execute(connection, "advance_executions", map(attrgetter(*ADVANCED), advanced))
    await EXECUTIONS.update(connection, others)


async def _write_all(
    connection: asyncpg.Connection, table: Table[R], rows: Mapping[K, R], was: Mapping[K, R]
) -> None:
    new, changed = _sorted(rows, was)
    await table.insert(connection, new)
    await table.update(connection, changed)


def _sorted(rows: Mapping[K, R], was: Mapping[K, R]) -> tuple[list[R], list[R]]:
    """The new ones, and those that have changed."""
    new = [row for key, row in rows.items() if key not in was]
    return new, [rows[key] for key, row in was.items() if rows[key] != row]


async def _end_loops(connection: asyncpg.Connection, rows: Rows) -> None:
    """A loop that ended ends its iterations. Those in this batch the fold has ended; the others only SQL can find."""
    ended = [list(column) for column in zip(*_tuples(rows.endings), strict=True)]
    folded = [list(column) for column in zip(*rows.runs, strict=True)]
    await connection.execute(SQL["cancel_iterations"], *ended, *folded)
    await connection.execute(SQL["lose_tasks"], *ended, *folded)


def _tuples(endings: Iterable[Ending]) -> Iterator[Values]:
    return map(msgspec.structs.astuple, endings)
