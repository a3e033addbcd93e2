"""What events are made of."""

from typing import Any, ClassVar, Literal

from msgspec import Struct

from shared.events.bounds import Attempt, Count, ExecutionId, Index, Name, PrintedText, Text
from shared.events.outcome import Ref, Result

Patch = dict[str, Any]
Path = tuple[str | int, ...]  # of keys and places, from the outside in
PRIORITY = 5  # from 0 to MAX_PRIORITY; the highest goes first
MAX_PRIORITY = 9
Ending = Literal["completed", "failed", "cancelled"]
Stream = Literal["stdout", "stderr", "output"]  # of a program; a job has one


class Growth(Struct, frozen=True, omit_defaults=True, gc=False):
    """What a task adds to a value of `iter`: `value`, or the stored one, or what stands `at` a place in the result of
    the same event."""

    into: Name
    how: Literal["append", "extend", "merge"]
    value: Any = None
    ref: Ref | None = None
    at: Path | None = None


class Scope(Struct, frozen=True, omit_defaults=True, gc=False):
    """The part of the execution's state a step's templates name, as of its scheduling. `caller` is `iter` of
    the iteration that started this execution."""

    workload: dict[str, Any] = {}
    ctx: dict[str, Any] = {}
    steps: dict[str, Result] = {}
    caller: dict[str, Any] = {}


class Parent(Struct, frozen=True, omit_defaults=True, gc=False):
    """Who waits for an execution: the place in another one that started it (`kind: playbook`).

    `wait` names the wait there, `returns` the step whose result it wants instead of the last one's,
    `iter` what its iteration held, `depth` how many executions are above this one, `root` the first of them; without
    one, `execution_id` is the highest that is known.
    """

    execution_id: ExecutionId
    run_id: Name
    wait: Text
    index: Index = -1
    returns: Text = ""
    iter: dict[str, Any] = {}
    depth: Count = 1
    detached: bool = False
    root: ExecutionId = ""


class Child(Struct, frozen=True, omit_defaults=True, gc=False):
    """The execution a task asks for."""

    execution_id: ExecutionId
    path: Text
    version: Text = ""
    payload: dict[str, Any] = {}
    returns: Text = ""
    iter: dict[str, Any] = {}
    detached: bool = False


class Limited(Struct, frozen=True, omit_defaults=True, gc=False):
    """A key of which places are held: at most `max` at the same time (0: any number), and at most `count` given
    within `period_s` (0: any)."""

    key: str
    max: int = 0
    count: int = 0
    period_s: float = 0.0


class Printed(Struct, frozen=True, omit_defaults=True, gc=False):
    """What a call that was cut short had printed until then, the last of each stream."""

    task: Name
    attempt: Attempt = 1
    streams: dict[Stream, PrintedText] = {}


class Base(Struct, frozen=True, omit_defaults=True, gc=False, tag_field="event_type"):
    entity: ClassVar[str] = "step"
    state: ClassVar[str] = "in_progress"


class Taken(Struct, frozen=True, omit_defaults=True, gc=False):
    """What a loop takes over from one that did not finish, in the execution `of`: its `count` frozen
    elements, the results of the `done` iterations that succeeded (null for the others), the indexes that are still
    `todo`, and the writes to ctx that nobody has applied."""

    of: ExecutionId
    count: Count
    done: Count
    items: list[Any] = []
    items_ref: Ref | None = None
    todo: list[int] = []
    todo_ref: Ref | None = None
    results: list[Any] = []
    results_ref: Ref | None = None
    ctx: tuple[Patch, ...] = ()


class Restart(Struct, frozen=True, omit_defaults=True, gc=False):
    """Where an execution continues that takes over from another."""

    step: Name
    args: dict[str, Any] = {}
    loop: Taken | None = None
