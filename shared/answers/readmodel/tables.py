"""The read model as tables of plain values, and how rows differ from what the log says they are."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from shared.answers.readmodel.entry import Entry
from shared.answers.readmodel.rows import Rows, Run, ctx_values
from shared.events import record as records
from shared.events.run_index import is_iteration

# Of each table, the columns that name a row of an execution.
KEYS: dict[str, tuple[str, ...]] = {
    "execution": ("execution_id",),
    "event": ("event_id",),
    "step_run": ("step_run_id",),
    "iteration": ("step_run_id", "iteration"),
    "loop": ("step_run_id",),
    "task_run": ("step_run_id", "iteration", "epoch_ns", "epoch_try", "n"),
    "ctx": ("key",),
}
JSON_COLUMNS = frozenset({"workload", "result", "result_ref", "error", "payload", "value", "labels"})
CTX_COLUMNS = ("execution_id", "key", "value", "updated_seq")
Row = dict[str, Any]
Tables = dict[str, list[Row]]

NOT_COMPARED = frozenset({"local", "begun"})  # NULL in rows from before they were there


class Difference(Struct, frozen=True):
    """`column` is empty when the whole row is missing, or is one that the log does not know of."""

    table: str
    key: str
    column: str = ""
    log: Any = None
    row: Any = None

    def __str__(self) -> str:
        place = f"table {self.table}, row {self.key}"
        if not self.column:
            return f"{place}: {'not in the log' if self.log is None else 'missing'}"
        return f"{place}: {self.column} is {_short(self.row)}, by the log it is {_short(self.log)}"


def tables(rows: Rows) -> Tables:
    """What the tables hold when this was folded into them."""
    runs = rows.runs.values()
    return {
        "execution": [msgspec.structs.asdict(row) for row in rows.executions.values()],
        "event": _events(rows.records),
        "step_run": [_run(run) for run in runs if not is_iteration(run.iteration)],
        "iteration": [_run(run) for run in runs if is_iteration(run.iteration)],
        "loop": [_run(row) for row in rows.loops.values()],
        "task_run": [_run(row) for row in rows.tasks.values()],
        "ctx": [dict(zip(CTX_COLUMNS, ctx_values(row), strict=True)) for row in rows.ctx.values()],
    }


def _events(entries: Iterable[Entry]) -> list[Row]:
    """Each once, as it was recorded first. This is what the view makes of the records in SQL."""
    found: dict[tuple[str, str], Row] = {}
    for entry in entries:
        for envelope in records.envelopes(entry.record):
            payload = msgspec.json.encode(envelope["payload"]).decode()
            event = {**envelope, "ts": entry.at, "partition": entry.partition, "seq": entry.seq, "payload": payload}
            found.setdefault((event["execution_id"], event["event_id"]), event)
    return list(found.values())


def _run(row: Run | Struct) -> Row:
    fields = msgspec.structs.asdict(row)
    fields["step_run_id"] = fields.pop("run_id")
    return fields


def differences(wanted: Tables, found: Mapping[str, Iterable[Mapping[str, Any]]]) -> Iterator[Difference]:
    """Table by table. Columns that only one side has are left alone: a database may be a version ahead."""
    for table, keys in KEYS.items():
        ours = {_key(row, keys): row for row in wanted[table] if _is_told(table, row)}
        theirs = {_key(row, keys): row for row in found.get(table, ()) if _is_told(table, row)}
        for key in sorted(ours.keys() | theirs.keys()):
            yield from _compare(table, key, ours.get(key), theirs.get(key))


def _is_told(table: str, row: Mapping[str, Any]) -> bool:
    """Loops that never started have rows only since there is a reason for them."""
    return table != "loop" or row.get("started_at") is not None


def _key(row: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return "/".join(str(row[name]) for name in keys)


def _compare(table: str, key: str, ours: Row | None, theirs: Mapping[str, Any] | None) -> Iterator[Difference]:
    if ours is None or theirs is None:
        yield Difference(table, key, log=None if ours is None else "a row", row=None if theirs is None else "a row")
        return
    for column, value in ours.items():
        if column in NOT_COMPARED or column not in theirs or value == theirs[column]:
            continue
        log, row = _plain(column, value), _plain(column, theirs[column])
        if not _is_same(log, row):
            yield Difference(table, key, column, log, row)


def _is_same(log: Any, row: Any) -> bool:
    """PostgreSQL keeps the numbers of JSON as decimals: 1e23 comes back as the integer 10**23, and no
    float is exactly that. So where the log has a float, both are compared as floats."""
    if isinstance(log, bool) or isinstance(row, bool):
        return log is row
    if isinstance(log, float) and isinstance(row, int):
        try:
            return log == float(row)
        except OverflowError:
            return False
    if isinstance(log, dict) and isinstance(row, dict):
        return log.keys() == row.keys() and all(_is_same(value, row[key]) for key, value in log.items())
    if isinstance(log, list) and isinstance(row, list):
        return len(log) == len(row) and all(map(_is_same, log, row))
    return bool(log == row)


def _plain(column: str, value: Any) -> Any:
    if column not in JSON_COLUMNS or not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return value


def _short(value: Any) -> str:
    text = msgspec.json.encode(value, enc_hook=str).decode()
    return text if len(text) <= 120 else text[:120] + "…"
