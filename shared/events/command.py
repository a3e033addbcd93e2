"""A command: one step-run, or one iteration of it, for a worker. Derived from the log, so it may be
lost, repeated or late without harm."""

from typing import Any

import msgspec
from msgspec import Struct

from shared.errors import Corrupt
from shared.events.model import Patch, Scope, Taken
from shared.events.outcome import Ref
from shared.events.parts import PRIORITY


class Local(Struct, frozen=True, omit_defaults=True, gc=False):
    """A loop that one worker runs: its elements (a tree if it is nested), the indexes still to be done if they are
    not all, and how many at a time."""

    items: list[Any] = []
    items_ref: Ref | None = None
    most: int = 1
    parallel: bool = False
    taken: Taken | None = None


class Command(Struct, frozen=True, omit_defaults=True, gc=False):
    """`fresh` is a hint: nobody can have held this run before, so its history need not be read. `since` is a
    record of the scheduler that the history must show: the end of a wait. `iter` is that of an iteration of loops
    within loops, whose `item` it holds. Of an iteration, nothing is older than `cause`. With `local` the command is for
    all iterations of a loop; with the index of a frame (`index.py`) it is for the claim of at most `count` rows."""

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


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Command)


def encode(command: Command) -> bytes:
    return _encoder.encode(command)


def decode(data: bytes) -> Command:
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"a command that cannot be read: {error}") from None
