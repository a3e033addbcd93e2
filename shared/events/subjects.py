"""The only place where a subject is built or parsed."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal, NamedTuple

from shared.events.run_index import index_of, part_of

ROOT = "noetl"  # all that is ours begins with it
REQUESTS = "noetl.requests"
EXECUTE = "noetl.requests.execute"
CHILD = "noetl.requests.child"  # the same, with a parent: for schedulers alone
DERIVED = "noetl.requests.derived"  # the same under an id that the engine derived: for schedulers and administrators
CANCEL = "noetl.requests.cancel"
PAUSE = "noetl.requests.pause"
RESUME = "noetl.requests.resume"
SIGNAL = "noetl.requests.signal"
RERUN = "noetl.requests.rerun"
API = "noetl.api"  # the same by request and reply: noetl.api.execute, …
ENDS = "noetl.ends"
ENDS_STREAM = "NOETL_ENDS"  # which holds them
TIME = "noetl.time"  # in the account of a pool: what time it is
ASKED = (EXECUTE, CANCEL, PAUSE, RESUME, SIGNAL, RERUN)  # what anyone may ask for
VERBS = {subject.rpartition(".")[2]: subject for subject in ASKED}
ALL_VERBS = ", ".join(sorted(VERBS))
STOPS = "noetl.stops"
CLAIMS = "noetl.claims"
EVENTS = "noetl.events"
COMMANDS = "noetl.commands"
RESULTS = "noetl.results"
DEAD = "noetl.dlq"
MEMBERS = "noetl.members"
CLOSED = "noetl.closed"
ENDED = "noetl.ended"
DEMAND = "noetl.demand"
KV = "$KV"  # the broker's: the keys of buckets
INBOX = "_INBOX"  # where answers are waited for
REPLIES = "_R_"  # the broker's: where it waits for an answer that goes to another account
ROUTER: Literal["router"] = "router"
SCHEDULER: Literal["scheduler"] = "scheduler"
WORKER: Literal["worker"] = "worker"
ITERATION: Literal["iteration"] = "iteration"
WAITING: Literal["waiting"] = "waiting"
CONTROL: Literal["control"] = "control"
NO_POOL = "@control"  # no pool has such a name
_NO_TOKEN = re.compile(r"[^\w=+-]")  # what the broker would take for a wildcard or for the end of a part, among others


LEASED = frozenset({WORKER, ITERATION, WAITING})  # a worker's own: written under a lease, in the name of its pool


class EventSubject(NamedTuple):
    """`pool` is empty of what no worker wrote, and of records from before it was part of the subject."""

    partition: int
    execution_id: str
    writer: str
    pool: str = ""


@lru_cache(maxsize=16_384)
def partition_of(execution_id: str, partitions: int) -> int:
    """FNV-1a-32 of the execution id, modulo the number of partitions."""
    value = 0x811C9DC5
    for byte in execution_id.encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value % partitions


def event(partition: int, execution_id: str, writer: str, pool: str = "") -> str:
    return f"{EVENTS}.{partition}.{execution_id}.{writer}{'.' if pool else ''}{pool}"


def parse_event(subject: str) -> EventSubject:
    """ValueError when it is not one."""
    _, _, partition, execution_id, writer, *pool = subject.split(".")
    return EventSubject(int(partition), execution_id, writer, *pool)


def writer_of(subject: str) -> str:
    """Who may write there, also when the rest of the subject is wrong; empty when it says none."""
    parts = subject.split(".")
    return parts[4] if len(parts) > 4 else ""


def events_of(partition: int, execution_id: str) -> str:
    return f"{EVENTS}.{partition}.{execution_id}.>"


def written(partition: int, execution_id: str, writers: Iterable[str]) -> list[str]:
    """Where these writers wrote about an execution, for any pool, and for none: it was not always part of the
    subject."""
    return [
        subject for writer in writers for own in [event(partition, execution_id, writer)]
        for subject in ([own, f"{own}.*"] if writer in LEASED else [own])
    ]


def events_by(partition: int, *writers: str) -> list[str]:
    """Where these writers write about any execution."""
    return written(partition, "*", writers)


def events_in(partition: int) -> tuple[str, ...]:
    """All subjects of the stream of a partition."""
    return f"{EVENTS}.{partition}.*.*", f"{EVENTS}.{partition}.*.*.*"


def command(pool: str, execution_id: str, run_id: str, index: int = -1) -> str:
    """One subject per run, iteration and frame: the queue holds at most one command of each."""
    return f"{COMMANDS}.{pool}.{execution_id}.{run_id}{part_of(index)}"


def command_of(prefix: str, subject: str) -> tuple[str, int]:
    """The run and the index of a command below `noetl.commands.<pool>.<execution>.`."""
    run_id, _, part = subject.removeprefix(prefix).partition(".")
    return run_id, index_of(part)


def commands_for(pool: str, execution_id: str, run_id: str) -> list[str]:
    """The subjects of a run's commands: its own, and those of its iterations."""
    own = command(pool, execution_id, run_id)
    return [own, f"{own}.*"]


def stops(pool: str) -> str:
    """Where a pool's workers hear which runs are to stop."""
    return f"{STOPS}.{pool}"


def claims(pool: str) -> str:
    """Where a pool's workers announce which runs they have claimed; inside the pool's own account."""
    return f"{CLAIMS}.{pool}"


def closed(account: str) -> str:
    """Where the broker says that a connection of an account is over."""
    return f"{CLOSED}.{account}"


def ended(pool: str) -> str:
    """Where the supervisor of a pool's workers says that one of them has ended."""
    return f"{ENDED}.{pool}"


def demand(instance: str) -> str:
    """Where a scheduler says what it holds back."""
    return f"{DEMAND}.{instance}"


def commands_of(pool: str) -> str:
    return f"{COMMANDS}.{pool}.>"


def result(execution_id: str, checksum: str, chunk: int | str, owner: str = "") -> str:
    """With an owner, where only the workers of that pool may write, or with NO_POOL the control services."""
    return f"{RESULTS}.{execution_id}.{checksum}.{chunk}{'.' if owner else ''}{owner}"


def parse_owned_result(subject: str) -> tuple[str, str]:
    """The chunk and the owner of a result that has one."""
    *_, chunk, owner = subject.split(".")
    return chunk, owner


def dead(origin: str, place: str, owner: str = "") -> str:
    """One subject for each place, so that the broker accepts one letter about it. With an owner, below the letters that
    it causes."""
    return f"{DEAD}.{origin}.{owner}{'.' if owner else ''}{place}"


def origin_of(subject: str) -> str:
    return subject.removeprefix(f"{DEAD}.").partition(".")[0]


def end(status: str, execution_id: str, path: str) -> str:
    """Where the end of an execution is told. The parts of its path come last, so that a listener can choose by
    status, by execution, by playbook (`noetl.ends.*.*.etl.load`) and by folder (`noetl.ends.failed.*.etl.>`)."""
    parts = [_NO_TOKEN.sub("_", part) or "_" for part in path.split("/")]
    return f"{ENDS}.{status}.{execution_id}.{'.'.join(parts)}"


def member(service: str) -> str:
    return f"{MEMBERS}.{service}"


def named(user: str, instance: str) -> str:
    """Where a process hears others of its name (`shared/runtime/service/one_name.py`)."""
    return f"{MEMBERS}.{user}.{instance}"


def key(bucket: str, name: str = ">") -> str:
    """Of a key in a bucket; a name may have wildcards, and without one it is every key."""
    return f"{KV}.{bucket}.{name}"


def inbox_prefix(user: str) -> str:
    """Each user reads only its own inboxes: no one sees another's answers. Without users there is one for all."""
    return f"{INBOX}_{user}" if user else INBOX
