"""The streams, consumers and buckets we want, as data. `ensure` (in `streams.py`) makes them so."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from shared.bus.kv import stream_of
from shared.events import subjects
from shared.events.bounds import MAX_LETTER_BYTES

PARTITIONS = 4
REQUESTS = "NOETL_REQUESTS"
COMMANDS = "NOETL_COMMANDS"
RESULTS = "NOETL_RESULTS"
DEAD = "NOETL_DLQ"
ENDS = subjects.ENDS_STREAM

PLAYBOOKS = "noetl_playbooks"
CURSORS = "noetl_cursors"
WORKERS = "noetl_workers"
KEYCHAIN = "noetl_keychain"
CTX = "noetl_ctx"
LOOPS = "noetl_loops"
LIMITS = "noetl_limits"  # who holds the places of each key
SCHEDULES = "noetl_schedules"  # schedules, triggers, and how far they are
SETTINGS = "noetl_settings"  # what holds for a whole stack: how long things are kept
ASIDE = "noetl_aside"  # executions that a control service cannot continue
POOLS = "noetl_pools"  # what people want of each pool, and its present state
TIMEKEEPER = stream_of(PLAYBOOKS)  # an answer about it says what time it is; it is small, and everybody may ask

# Those whose size may be bounded, by the name they have in settings. Never the log: at a limit every execution stops.
LIMITED = {"requests": REQUESTS, "commands": COMMANDS, "results": RESULTS, "dlq": DEAD, "ends": ENDS}

WORKER_TTL_S = 10.0
COMMAND_LEASE_S = 15.0
REQUEST_LEASE_S = 15.0
REQUESTS_KEPT_S = 7 * 86_400.0  # taken or not: deleting each one as it is taken would cost a write
LETTERS_OF_ONE = 500  # of one origin and owner: whoever causes more pushes out its own
LETTERS_KEPT_S = 90 * 86_400.0
MAX_LETTERS = 10_000  # with the size of one, half a GB at worst; `max_bytes` would take that from the store beforehand
ENDS_KEPT_S = 7 * 86_400.0
MAX_ENDS = 100_000  # each is a subject, about 300 bytes of the broker's memory
CATALOGUE_HISTORY = 64  # of each key: what a path and each of its versions named before; more, the broker does not keep
COMMAND_WINDOW_S = 30.0  # over twice the time a command counts as fresh


def events_stream(partition: int) -> str:
    return f"NOETL_EVENTS_{partition}"


class Stream(Struct, frozen=True):
    name: str
    subjects: tuple[str, ...]
    storage: Literal["file", "memory"] = "file"
    retention: Literal["limits", "workqueue"] = "limits"
    write_once: bool = False  # at most one message per subject, a second one is refused
    sealed: bool = False      # no delete, no purge
    duplicate_window_s: float = 120.0
    max_msg_bytes: int = -1
    max_age_s: float = 0.0    # 0: for ever
    max_msgs: int = -1        # beyond it the oldest go


class QueueConsumer(Struct, frozen=True):
    stream: str
    name: str
    filter: str
    lease_s: float
    max_ack_pending: int = 4096
    paused_until: str = ""  # it is made so; nothing is delivered before
    after: int = 0  # it is made so; nothing is delivered up to this sequence


class Bucket(Struct, frozen=True):
    name: str
    ttl_s: float = 0.0
    history: int = 1


class Provision(Struct, frozen=True):
    """How all of it is made on a broker: copies, tags of the servers that hold them, bytes of single streams, and how
    long they keep what is in them, in seconds, where somebody has said so."""

    replicas: int = 1
    placement: tuple[str, ...] = ()
    max_bytes: Mapping[str, int] = {}
    max_age_s: Mapping[str, float] = {}


class Topology(Struct, frozen=True):
    streams: tuple[Stream, ...]
    consumers: tuple[QueueConsumer, ...]
    buckets: tuple[Bucket, ...]
    partitions: int


def wanted(pools: tuple[str, ...] = ("default",), partitions: int = PARTITIONS) -> Topology:
    events = tuple(
        Stream(events_stream(p), subjects.events_in(p), sealed=True) for p in range(partitions)
    )
    return Topology(
        streams=(
            *events,
            Stream(REQUESTS, (f"{subjects.REQUESTS}.>",), max_age_s=REQUESTS_KEPT_S),
            Stream(
                COMMANDS, (f"{subjects.COMMANDS}.>",), "memory", "workqueue", write_once=True,
                duplicate_window_s=COMMAND_WINDOW_S,
            ),
            Stream(RESULTS, (f"{subjects.RESULTS}.>",), write_once=True),
            Stream(
                DEAD, (f"{subjects.DEAD}.>",), max_msg_bytes=MAX_LETTER_BYTES, max_age_s=LETTERS_KEPT_S,
                max_msgs=MAX_LETTERS,
            ),
            Stream(ENDS, (f"{subjects.ENDS}.>",), max_age_s=ENDS_KEPT_S, max_msgs=MAX_ENDS),
        ),
        consumers=(
            QueueConsumer(REQUESTS, "router", f"{subjects.REQUESTS}.>", REQUEST_LEASE_S),
            *(QueueConsumer(COMMANDS, pool, subjects.commands_of(pool), COMMAND_LEASE_S) for pool in pools),
        ),
        buckets=(
            Bucket(PLAYBOOKS, history=CATALOGUE_HISTORY),
            Bucket(CURSORS),
            Bucket(WORKERS, ttl_s=WORKER_TTL_S),
            Bucket(KEYCHAIN),
            Bucket(CTX),
            Bucket(LOOPS),
            Bucket(LIMITS),
            Bucket(SCHEDULES),
            Bucket(POOLS),
            Bucket(ASIDE),
            Bucket(SETTINGS),
        ),
        partitions=partitions,
    )
