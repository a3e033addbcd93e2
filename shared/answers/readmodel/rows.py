"""The rows of the read model as values, and the rows a batch touches.

A field is the column of its name, `run_id` that of `step_run_id`. JSON columns hold encoded text. Fields that are set
once and never looked at again (`None` until then) are not read back.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from shared.answers.readmodel.entry import Entry
from shared.events.outcome import Result
from shared.events.record import Epoch, encode

MAX_GROUP_BYTES = 262_144  # then another row begins: to read one event, its whole group is read
TERMINAL = frozenset({"done", "failed", "cancelled"})

RunKey = tuple[str, str, int]  # execution, run, iteration (-1: the step-run itself)
LoopKey = tuple[str, str]
CtxKey = tuple[str, str]
TaskKey = tuple[str, str, int, int, int, int]  # a RunKey, the epoch, the number of the first event


class Execution(Struct, gc=False):
    """`router_n`, `scheduler_n` and `controls` tell a record that may repeat an event from one that cannot."""

    execution_id: str
    partition: int
    started_at: datetime
    updated_at: datetime
    path: str = ""
    version: str = ""
    digest: str = ""
    status: str = "running"
    finished_at: datetime | None = None
    workload: str | None = None
    result: str | None = None
    result_ref: str | None = None
    error: str | None = None
    seq: int = 0
    parent_id: str | None = None
    labels: str | None = None
    trace_id: str = ""
    router_n: int = 0
    scheduler_n: int = 0
    controls: int = 0
    rerun_of: str | None = None


class Run(Struct, gc=False):
    """A step-run (iteration -1) or one iteration of it: whatever a worker can hold."""

    execution_id: str
    run_id: str
    iteration: int = -1
    step: str = ""
    status: str = "scheduled"
    pool: str = ""
    scheduled_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    worker: str = ""
    epoch_ns: int = 0
    epoch_try: int = 0
    n: int = 0
    claims: int = 0
    task: str = ""
    task_n: int = 0
    result: str | None = None
    result_ref: str | None = None
    error: str | None = None

    @property
    def key(self) -> RunKey:
        return (self.execution_id, self.run_id, self.iteration)

    @property
    def epoch(self) -> Epoch:
        return (self.epoch_ns, self.epoch_try)


class Loop(Struct, gc=False):
    """From its scheduling on. `local`: one worker runs all of it; iterations before `begun` were handed out. None: it
    was projected before anyone asked."""

    execution_id: str
    run_id: str
    step: str = ""
    status: str = "running"
    count: int = 0
    max_in_flight: int = 1
    started: int = 0
    done: int = 0
    failed: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None
    local: bool | None = None
    begun: int | None = None


class TaskRun(Struct, gc=False):
    execution_id: str
    run_id: str
    iteration: int
    epoch_ns: int
    epoch_try: int
    n: int
    task_run_id: str = ""
    task: str = ""
    attempt: int = 1
    status: str = "running"
    directive: str = ""
    target: str = ""
    delay_s: float = 0.0
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error: str | None = None


class Ctx(Struct, gc=False):
    execution_id: str
    key: str
    value: Any
    seq: int


class Ending(Struct, frozen=True, gc=False):
    """A loop ended: whatever of it still runs is cancelled."""

    execution_id: str
    run_id: str
    at: datetime


class Rows(Struct):
    """What a fold reads and leaves behind: a batch's rows, or, from an empty start, the whole model."""

    executions: dict[str, Execution] = {}
    runs: dict[RunKey, Run] = {}
    loops: dict[LoopKey, Loop] = {}
    ctx: dict[CtxKey, Ctx] = {}
    tasks: dict[TaskKey, TaskRun] = {}
    records: list[Entry] = []
    endings: list[Ending] = []
    started_tasks: set[TaskKey] = set()  # those that no earlier record had begun
    repeated: set[str] = set()  # executions with a record that may repeat an event


_encode = msgspec.json.encode


def json_text(value: Any) -> str | None:
    """None is the absence of a value, so it is NULL and not `null`."""
    return None if value is None else _encode(value).decode()


def ctx_values(row: Ctx) -> tuple[str, str, str, int]:
    return (row.execution_id, row.key, _encode(row.value).decode(), row.seq)


def record_groups(entries: Iterable[Entry]) -> Iterator[tuple[Any, ...]]:
    """The records of each execution together, in the order of `RECORD_GROUP_COLUMNS`.

    A record is encoded again, whatever its bytes were: what `msgspec` writes, PostgreSQL can read as JSON.
    """
    open_: dict[str, tuple[Entry, list[bytes], list[int]]] = {}
    for entry in entries:
        eid = entry.record.execution_id
        text = b'[%d,"%b",%b]' % (entry.seq, entry.at.isoformat().encode(), encode(entry.record))
        first, texts, sizes = open_.setdefault(eid, (entry, [], [0]))
        texts.append(text)
        sizes[0] += len(text)
        if sizes[0] > MAX_GROUP_BYTES:
            yield _group(first, texts)
            del open_[eid]
    for first, texts, _ in open_.values():
        yield _group(first, texts)


def _group(first: Entry, texts: list[bytes]) -> tuple[Any, ...]:
    return (first.seq, first.at, first.partition, first.record.execution_id, (b"[%b]" % b",".join(texts)).decode())


RECORD_GROUP_COLUMNS = ("seq", "ts", "partition", "execution_id", "records")


def set_result(row: Execution | Run, result: Result | None) -> None:
    if result is not None:
        row.result, row.result_ref = json_text(result.value), json_text(result.ref)
