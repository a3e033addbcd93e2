"""A command: one step-run, or one iteration of it, for a worker. Derived from the log, so it may be
lost, repeated or late without harm."""

from typing import Any

import msgspec
from msgspec import Struct

from shared.events.beat import Key
from shared.events.bounds import MAX_COMMAND_BYTES
from shared.events.decoding import read
from shared.events.fields import PRIORITY
from shared.events.model import Patch, Scope, Taken
from shared.events.outcome import Ref


class Local(Struct, frozen=True, omit_defaults=True, gc=False):
    """A loop that one worker runs: its elements (a tree if it is nested), the indexes still to be done if they are
    not all, and how many at a time."""

    items: list[Any] = []
    items_ref: Ref | None = None
    most: int = 1
    parallel: bool = False
    taken: Taken | None = None


class Command(Struct, frozen=True, omit_defaults=True, gc=False):
    """`fresh` is a hint: nobody can have held this run before, so its history need not be read. It is good for a while
    after `at`, when the record was written that caused it (`is_fresh`). `since` is a
    record of the scheduler that the history must show: the end of a wait. `iter` is that of an iteration of loops
    within loops, whose `item` it holds. Of an iteration, nothing is older than `cause`. With `local` the command is for
    all iterations of a loop; with the index of a frame (`run_index.py`) it is for the claim of at most `count` rows.
    `root` is the execution that this one descends from; empty: it is nobody's child. `due_by` is the key of the
    playbook that the deadline comes from."""

    execution_id: str
    run_id: str
    step: str
    digest: str
    pool: str
    cause: int
    args: dict[str, Any] = {}
    scope: Scope = Scope()
    scope_ref: Ref | None = None
    deadline: str = ""
    fresh: bool = False
    index: int = -1
    count: int = 0
    item: Any = None
    ctx: tuple[Patch, ...] = ()
    since: int = 0
    iter: dict[str, Any] = {}
    priority: int = PRIORITY
    local: Local | None = None
    at: float = 0.0
    root: str = ""
    due_by: str = ""


FRESH_S = 10.0  # the record that caused it is not older: otherwise another scheduler may have handled it before


def key_of(command: Command) -> Key:
    return command.execution_id, command.run_id, command.index


def is_fresh(command: Command, epoch: tuple[int, int]) -> bool:
    """Whether a worker may believe it. The broker, which refuses a second fresh one for much longer than FRESH_S, says
    when it accepted the message: a scheduler that was held up between its last look at the clock and its publish does
    not know."""
    return command.fresh and epoch[1] == 1 and epoch[0] <= (command.at + FRESH_S) * 1e9


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Command)


def encode(command: Command) -> bytes:
    return _encoder.encode(command)


def decode(data: bytes) -> Command:
    return read(_decoder, data, "a command", MAX_COMMAND_BYTES)
