"""What a rehearsal is given: how the execution begins, and under what it is rehearsed."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from shared.answers.rehearsal.order import Chooser
from shared.answers.rehearsal.types import Watch
from shared.events import model as ev


class Limits(Struct, frozen=True):
    """`events` in the log, `seconds` of virtual time."""

    events: int = 100_000
    seconds: float = 400 * 86_400.0


class Faults(Struct, frozen=True):
    """How often, of 1. `crash`: a worker dies before or after the record of a task, or is taken for dead and goes
    on; a state of the router or the scheduler is thrown away. `dup`: what a worker or someone outside wrote stands
    in the log twice, a command is given out twice. Another order of what is ready is a matter of the chooser."""

    crash: float = 0.0
    dup: float = 0.0


class Opening(Struct, frozen=True, kw_only=True):
    """How the execution begins: the request for it, which comes `at` this time, and what an earlier execution left."""

    execution_id: str = "rehearsal"
    at: float = 0.0
    payload: Mapping[str, Any] = {}
    parent: ev.Parent | None = None
    request_id: str = ""
    priority: int | None = None
    restored: ev.PlaybookRestored | None = None


class Conditions(Struct, frozen=True, kw_only=True):
    """What it is rehearsed under. Without a `chooser`, the first that can happen does. `values` are stored ones that
    answers may refer to. Not `timed`: `timeout_s` of steps is left to the answers."""

    chooser: Chooser | None = None
    faults: Faults = Faults()
    seed: object = 0
    limits: Limits = Limits()
    values: dict[str, Any] | None = None
    timed: bool = True
    watch: Watch | None = None
