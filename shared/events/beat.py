"""What a worker says of itself in the `noetl_workers` bucket, under `<pool>.<worker>`. `decode` is the only way to it:
whoever has the credentials of a pool can write anything under its keys."""

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from shared.errors import Corrupt
from shared.events.bounds import (
    MAX_BEAT_BYTES,
    MAX_BEAT_CALLS,
    MAX_BEAT_KINDS,
    MAX_BEAT_LINES,
    MAX_BEAT_SAYINGS,
    MAX_BEAT_SLOTS,
    POOL,
    WORKER,
    Attempt,
    BeatText,
    Count,
    ExecutionId,
    Index,
    Name,
    Seq,
    Unix,
)
from shared.events.decoding import read
from shared.events.fields import Stream

Key = tuple[str, str, int]  # execution, run, iteration (-1: none)
Slots = Annotated[int, Meta(ge=0, le=MAX_BEAT_SLOTS)]
Room = Annotated[int, Meta(ge=0, le=4 * MAX_BEAT_SLOTS)]
Skew = Annotated[float, Meta(ge=-1e11, le=1e11)]
MAX_CAPABILITIES = 32


PROBE = "doctor-probe"  # the worker in whose name permissions are tried


class Calling(Struct, frozen=True, omit_defaults=True):
    """A call under way, and since when."""

    execution_id: ExecutionId
    run_id: Name
    index: Index
    step: Name
    task: Name
    since: Unix


class Saying(Struct, frozen=True, omit_defaults=True):
    """What a call that lasts has printed last: lines of each stream, without secrets."""

    execution_id: ExecutionId
    run_id: Name
    index: Index
    task: Name
    attempt: Attempt = 1
    streams: dict[Stream, Annotated[tuple[BeatText, ...], Meta(max_length=MAX_BEAT_LINES)]] = {}


class Busy(Struct, frozen=True, omit_defaults=True):
    """A kind of tool of which a worker makes `size` calls at a time: how many are made, how many runs wait for a turn,
    and some of the calls."""

    kind: BeatText
    size: Count
    taken: Count = 0
    waiting: Count = 0
    calls: Annotated[list[Calling], Meta(max_length=MAX_BEAT_CALLS)] = []

    @property
    def is_full(self) -> bool:
        return self.taken >= self.size


class Beat(Struct, frozen=True, omit_defaults=True):
    """`room`: how many commands it wants to have, beyond the first of each execution. `seqs` names the message of the
    queue by which each of `held` is held, in the same order. `skew`: by how many seconds its host's clock is ahead of
    the broker's. `busy` are the kinds of tools that take turns, `says` what some of the calls have printed."""

    worker: str
    pool: str
    slots: Slots = 0
    held: Annotated[list[tuple[ExecutionId, Name, Index]], Meta(max_length=MAX_BEAT_SLOTS)] = []
    room: Room = 0
    host: BeatText = ""
    pid: Count = 0
    started: Unix = 0.0
    version: BeatText = ""
    provides: Annotated[tuple[BeatText, ...], Meta(max_length=MAX_CAPABILITIES)] = ()
    draining: bool = False
    seqs: Annotated[list[Seq], Meta(max_length=MAX_BEAT_SLOTS)] = []
    skew: Skew = 0.0
    busy: Annotated[list[Busy], Meta(max_length=MAX_BEAT_KINDS)] = []
    says: Annotated[list[Saying], Meta(max_length=MAX_BEAT_SAYINGS)] = []


_decoder = msgspec.json.Decoder(Beat)


def key_of(pool: str, worker: str) -> str:
    return f"{pool}.{worker}"


def latest_of_hosts(beats: Iterable[Beat]) -> dict[str, Beat]:
    """By the name of the host: of several the one of the process that was started last."""
    return {beat.host: beat for beat in sorted(beats, key=lambda beat: beat.started)}


def is_probe(key: str) -> bool:
    """Somebody tested its permission to write there, and stored nothing; whoever follows the subject heard it all the
    same."""
    return key.partition(".")[2] == PROBE


def decode(key: str, data: bytes) -> Beat:
    """The key says whose it is: the broker lets a pool write only its own keys. Raises Corrupt with what is wrong."""
    pool, _, worker = key.partition(".")
    if not POOL.fullmatch(pool) or not WORKER.fullmatch(worker):
        raise Corrupt("a heartbeat under a key that no worker has")
    beat = read(_decoder, data, "a heartbeat", MAX_BEAT_BYTES)
    if (beat.pool, beat.worker) != (pool, worker):
        raise Corrupt("a heartbeat that speaks for another than its key says")
    return beat
