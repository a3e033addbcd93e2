"""The only place where a subject is built or parsed."""

from typing import Literal, NamedTuple

from shared.events.index import index_of, part_of

REQUESTS = "noetl.requests"
EXECUTE = "noetl.requests.execute"
CANCEL = "noetl.requests.cancel"
PAUSE = "noetl.requests.pause"
RESUME = "noetl.requests.resume"
SIGNAL = "noetl.requests.signal"
RERUN = "noetl.requests.rerun"
STOPS = "noetl.stops"
EVENTS = "noetl.events"
COMMANDS = "noetl.commands"
RESULTS = "noetl.results"
DEAD = "noetl.dlq"
MEMBERS = "noetl.members"
ROUTER: Literal["router"] = "router"
SCHEDULER: Literal["scheduler"] = "scheduler"
WORKER: Literal["worker"] = "worker"
ITERATION: Literal["iteration"] = "iteration"
WAITING: Literal["waiting"] = "waiting"
CONTROL: Literal["control"] = "control"


class EventSubject(NamedTuple):
    partition: int
    execution_id: str
    writer: str


def partition_of(execution_id: str, partitions: int) -> int:
    """FNV-1a-32 of the execution id, modulo the number of partitions."""
    value = 0x811C9DC5
    for byte in execution_id.encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value % partitions


def event(partition: int, execution_id: str, writer: str) -> str:
    return f"{EVENTS}.{partition}.{execution_id}.{writer}"


def parse_event(subject: str) -> EventSubject:
    _, _, partition, execution_id, writer = subject.split(".")
    return EventSubject(int(partition), execution_id, writer)


def events_of(partition: int, execution_id: str) -> str:
    return f"{EVENTS}.{partition}.{execution_id}.*"


def events_by(partition: int, writer: str) -> str:
    return f"{EVENTS}.{partition}.*.{writer}"


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


def commands_of(pool: str) -> str:
    return f"{COMMANDS}.{pool}.>"


def result(execution_id: str, checksum: str, chunk: int) -> str:
    return f"{RESULTS}.{execution_id}.{checksum}.{chunk}"


def dead(origin: str) -> str:
    return f"{DEAD}.{origin}"


def member(service: str) -> str:
    return f"{MEMBERS}.{service}"
