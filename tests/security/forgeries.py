"""What somebody with the credentials of one pool's worker may try against an execution of another pool, as data.

`REFUSED` the broker does not let through. `UNREADABLE` it does, and no reader takes for a record. `UNFITTING` are
records as a worker may write them, about runs that are not its pool's, or not there.
"""

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from shared.bus import topology
from shared.bus.kv import stream_of
from shared.events import subjects

Built = tuple[str, bytes]


class Target(Struct, frozen=True):
    """An execution as whoever reads its log sees it, `held` in the other `pool`; `own` is the forger's."""

    execution_id: str
    partition: int
    run_id: str
    step: str
    task: str
    worker: str
    epoch: tuple[int, int]
    pool: str
    own: str
    ts: str


class Forgery(NamedTuple):
    name: str
    build: Callable[[Target], Built]


# -- by their subject ------------------------------------------------------------------------


def _event(target: Target, writer: str, pool: str = "") -> str:
    tail = f".{pool}" if pool else ""
    return f"{subjects.EVENTS}.{target.partition}.{target.execution_id}.{writer}{tail}"


def _at(subject: Callable[[Target], str], *events: dict[str, Any], writer: str = "router") -> Callable[[Target], Built]:
    return lambda target: (subject(target), _encoded(_record(target, *events, writer=writer, lease=None)))


def _raw(subject: Callable[[Target], str], data: Any) -> Callable[[Target], Built]:
    return lambda target: (subject(target), msgspec.json.encode(data))


CANCELLING = {"event_type": "playbook.cancelling", "until": "2026-01-01T00:00:00.000000Z", "reason": "forged"}
COMPLETED = {"event_type": "playbook.processed", "status": "completed"}
CANCEL = {"event_type": "cancel.requested", "reason": "forged"}
DONE = {"event_type": "step.done", "result": {"value": "forged"}}

REFUSED = (
    Forgery("a router's record where routers write", _at(lambda t: _event(t, "router"), CANCELLING)),
    Forgery("a scheduler's record", _at(lambda t: _event(t, "scheduler"), COMPLETED, writer="scheduler")),
    Forgery("a word from outside", _at(lambda t: _event(t, "control"), CANCEL, writer="control")),
    Forgery("a report as the other pool", _at(lambda t: _event(t, "worker", t.pool), DONE, writer="worker")),
    Forgery("an iteration of the other pool", _at(lambda t: _event(t, "iteration", t.pool), DONE, writer="iteration")),
    Forgery("a wait's as the other pool", _at(lambda t: _event(t, "waiting", t.pool), DONE, writer="waiting")),
    Forgery("a report that names no pool", _at(lambda t: _event(t, "worker"), DONE, writer="worker")),
    Forgery("an iteration's that names no pool", _at(lambda t: _event(t, "iteration"), DONE, writer="iteration")),
    Forgery("a child", _raw(lambda _: subjects.CHILD, {"path": "security/held"})),
    Forgery("a request", _raw(lambda _: subjects.EXECUTE, {"path": "security/held"})),
    Forgery("a cancel", _raw(lambda _: subjects.CANCEL, {"execution_id": "x"})),
    Forgery("a signal", _raw(lambda _: subjects.SIGNAL, {"execution_id": "x", "name": "go"})),
    Forgery("a rerun", _raw(lambda _: subjects.RERUN, {"execution_id": "x"})),
    Forgery("a command of the other pool", _raw(lambda t: subjects.command(t.pool, t.execution_id, t.run_id), {})),
    Forgery("a command of its own pool", _raw(lambda t: subjects.command(t.own, t.execution_id, t.run_id), {})),
    Forgery("a stop for the other pool", _raw(lambda t: subjects.stops(t.pool), {})),
    Forgery("a worker's end", _raw(lambda t: subjects.ended(t.pool), {"worker": "w"})),
    Forgery("a dead letter", _raw(lambda _: subjects.dead("router", "x"), {})),
    Forgery("a member's word", _raw(lambda _: subjects.member("router"), {})),
    Forgery("a heartbeat of the other pool", _raw(lambda t: f"$KV.{topology.WORKERS}.{t.pool}.{t.worker}", {})),
    *(Forgery(f"an entry in {bucket}", _raw(lambda _, bucket=bucket: f"$KV.{bucket}.x", {})) for bucket in (
        topology.ASIDE, topology.CTX, topology.CURSORS, topology.KEYCHAIN, topology.LIMITS, topology.LOOPS,
        topology.PLAYBOOKS, topology.POOLS, topology.SCHEDULES)),
    Forgery("a purge of the log", _raw(lambda t: f"$JS.API.STREAM.PURGE.{topology.events_stream(t.partition)}", {})),
    Forgery("a delete of the log", _raw(lambda t: f"$JS.API.STREAM.DELETE.{topology.events_stream(t.partition)}", {})),
    Forgery("a deleted command", _raw(lambda _: f"$JS.API.STREAM.MSG.DELETE.{topology.COMMANDS}", {"seq": 1})),
    Forgery("a pull from the other pool", _raw(lambda t: f"$JS.API.CONSUMER.MSG.NEXT.{topology.COMMANDS}.{t.pool}",
                                               {"batch": 1, "no_wait": True})),
    Forgery("a consumer of its own", _raw(lambda _: f"$JS.API.CONSUMER.CREATE.{topology.COMMANDS}.mine", {})),
    Forgery("the bucket of keys", _raw(lambda _: f"$JS.API.STREAM.DELETE.{stream_of(topology.KEYCHAIN)}", {})),
)


# -- by their content ------------------------------------------------------------------------


def _lease(target: Target, **changes: Any) -> dict[str, Any]:
    epoch = [target.epoch[0] + 1, target.epoch[1] + 1]
    found = {"run_id": target.run_id, "step": target.step, "epoch": epoch, "worker": target.worker,
             "pool": target.own, **changes}
    return {key: value for key, value in found.items() if value is not None}


def _record(target: Target, *events: dict[str, Any], **changes: Any) -> dict[str, Any]:
    lease = changes.pop("lease", {})
    found = {"execution_id": target.execution_id, "writer": "worker", "n": 1, "ts": target.ts, "events": list(events),
             "lease": None if lease is None else _lease(target, **lease), **changes}
    return {key: value for key, value in found.items() if value is not None}


def _encoded(record: dict[str, Any]) -> bytes:
    return msgspec.json.encode(record)


def _own(*events: dict[str, Any], on: str = "worker", **changes: Any) -> Callable[[Target], Built]:
    """On a subject that the broker lets it write."""
    return lambda target: (_event(target, on, target.own),
                           _encoded(_record(target, *events, **{"writer": on, **changes})))


def _bytes(data: bytes, on: str = "worker") -> Callable[[Target], Built]:
    return lambda target: (_event(target, on, target.own), data)


def _elsewhere(target: Target) -> Built:
    record = _record(target, DONE)
    return _event(target, "worker", target.own).replace(target.execution_id, "another"), _encoded(record)


def _other_partition(target: Target) -> Built:
    moved = (target.partition + 1) % topology.PARTITIONS
    return f"{subjects.EVENTS}.{moved}.{target.execution_id}.worker.{target.own}", _encoded(_record(target, DONE))


def _twice_named(target: Target) -> Built:
    subject, data = _own(DONE)(target)
    return subject, data.replace(b'"writer":"worker"', b'"writer":"worker","writer":"router"')


SCHEDULED = {"event_type": "step.scheduled", "run_id": "start:9", "step": "start", "pool": "other"}
SELECTED = {"event_type": "next.selected", "run_id": "nowhere:1", "step": "nowhere", "event": "step.done"}
LOOP_DONE = {"event_type": "loop.done", "run_id": "start:1", "step": "start", "result": {"value": []}}
TASK = {"event_type": "task.started", "task": "hold", "attempt": 1}
HUGE = 9 * 10**18

UNREADABLE = (
    Forgery("a router's cancel in a worker's place", _own(CANCELLING, writer="router", lease=None)),
    Forgery("a router's completion", _own(COMPLETED, writer="router", lease=None)),
    Forgery("a router's step in another pool", _own(SCHEDULED, writer="router", lease=None)),
    Forgery("a scheduler's end of a loop", _own(LOOP_DONE, writer="scheduler", lease=None)),
    Forgery("a cancel from outside", _own(CANCEL, writer="control", lease=None, source="forged")),
    Forgery("a router's with a lease", _own(CANCELLING, writer="router")),
    Forgery("a worker's cancel", _own(CANCELLING)),
    Forgery("a worker's completion", _own(COMPLETED)),
    Forgery("a worker's step", _own(SCHEDULED)),
    Forgery("a worker's arcs", _own(SELECTED)),
    Forgery("a worker's end of a loop", _own(LOOP_DONE)),
    Forgery("a worker's request to cancel", _own(CANCEL)),
    Forgery("a waiting one's cancel", _own(CANCELLING, on="waiting")),
    Forgery("another execution's record", _elsewhere),
    Forgery("a partition that is not the execution's", _other_partition),
    Forgery("no lease", _own(DONE, lease=None)),
    Forgery("no lease where one waits", _own({"event_type": "task.waiting", "task": "hold", "attempt": 1, "wait": "w"},
                                             on="waiting", lease=None)),
    Forgery("no events", _own()),
    Forgery("no events where one waits", _own(on="waiting")),
    Forgery("no events of an iteration", _own(on="iteration")),
    Forgery("the other pool's lease", _own(DONE, lease={"pool": "default"})),
    Forgery("a lease of no pool", _own(DONE, lease={"pool": None})),
    Forgery("an epoch at the end of time", _own(DONE, lease={"epoch": [HUGE, 1]})),
    Forgery("an epoch before time", _own(DONE, lease={"epoch": [-1, 1]})),
    Forgery("a delivery before the first", _own(DONE, lease={"epoch": [1, 0]})),
    Forgery("an epoch of text", _own(DONE, lease={"epoch": ["1", "1"]})),
    Forgery("a number before the first", _own(DONE, n=0)),
    Forgery("a number beyond all", _own(DONE, n=2**63)),
    Forgery("an index below all", _own(DONE, on="iteration", lease={"index": -(2**40)})),
    Forgery("an index beyond all", _own(DONE, on="iteration", lease={"index": 2**62})),
    Forgery("a time that is none", _own(DONE, ts="now")),
    Forgery("a time of control characters", _own(DONE, ts="\u001b]52;c;eA==\u0007")),
    Forgery("a run without end", _own(DONE, lease={"run_id": "r" * 5000})),
    Forgery("a worker that is no name", _own(DONE, lease={"worker": "w\u001b[2J"})),
    Forgery("an attempt before the first", _own({**TASK, "attempt": 0})),
    Forgery("an attempt beyond all", _own({**TASK, "attempt": 2**60})),
    Forgery("a later version", _own(DONE, v=99)),
    Forgery("a writer nobody knows", _own(DONE, writer="emperor")),
    Forgery("an event nobody knows", _own({"event_type": "throne.taken"})),
    Forgery("two writers", _twice_named),
    Forgery("two bytes", _bytes(b"{}")),
    Forgery("nothing", _bytes(b"")),
    Forgery("no JSON", _bytes(b"\x00\xff{")),
    Forgery("no text", _bytes(b'{"execution_id":"\xff\xfe"}')),
    Forgery("a list of lists", _bytes(b"[" * 200_000)),
    Forgery("objects in objects", _bytes(b'{"a":' * 100_000)),
    Forgery("a megabyte of nothing", _bytes(b" " * 1_000_000)),
    Forgery("a megabyte of text", _own({**DONE, "result": {"value": "x" * 1_000_000}}, lease=None)),
)


def _deep(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


def _squatted(target: Target) -> Built:
    """Other bytes where a result of the execution would be stored."""
    checksum = hashlib.sha256(b"the result").hexdigest()
    return subjects.result(target.execution_id, checksum, 0), b"forged"


WAIT = {"event_type": "task.waiting", "task": "hold", "attempt": 1, "wait": "forged",
        "child": {"execution_id": "forged", "path": "security/held", "payload": {}}}
OUTCOME = {"status": "ok", "result": "forged"}

UNFITTING = (
    Forgery("the end of the run", _own({"event_type": "step.started"}, DONE)),
    Forgery("the failure of the run", _own({"event_type": "step.failed", "error": {"kind": "forged", "message": "m"}})),
    Forgery("the start of the run", _own({"event_type": "step.started"})),
    Forgery("a lease handed back", _own({"event_type": "lease.released", "why": "forged"})),
    Forgery("a task's start", _own(TASK)),
    Forgery("a task's end with a patch of ctx", _own(
        {"event_type": "task.done", "task": "hold", "attempt": 1, "outcome": OUTCOME, "do": "continue",
         "set_ctx": {"result": "forged"}})),
    Forgery("a task's end that jumps", _own(
        {"event_type": "task.done", "task": "hold", "attempt": 1, "outcome": OUTCOME, "do": "jump", "to": "nowhere"})),
    Forgery("a wait for a playbook", _own(WAIT, on="waiting")),
    Forgery("a wait for ever", _own({**WAIT, "child": None, "signal": "never"}, on="waiting")),
    Forgery("an iteration that is not there", _own({"event_type": "loop.iteration.done", "result": {"value": 1}},
                                                   on="iteration", lease={"index": 7})),
    Forgery("a loop that is halted", _own({"event_type": "loop.halted", "next": 0}, on="iteration")),
    Forgery("an epoch an hour ahead", lambda t: _own(DONE, lease={"epoch": [t.epoch[0] + 3600 * 10**9, 1]})(t)),
    Forgery("a run that is no name", _own(DONE, lease={"run_id": "start 1\r\n> *"})),
    Forgery("rows that nobody claimed", _own({"event_type": "loop.frame.claimed", "count": 2, "rows": [1, 2]},
                                             on="iteration", lease={"index": -2})),
    Forgery("a run that is not there", _own(DONE, lease={"run_id": "start:7"})),
    Forgery("a step that is not the run's", _own(DONE, lease={"step": "other"})),
    Forgery("a task that is not there", _own({**TASK, "task": "nothing"})),
    Forgery("the epoch of the holder itself", lambda t: _own(DONE, lease={"epoch": list(t.epoch)})(t)),
    Forgery("a deep result", _own({**DONE, "result": {"value": _deep(50)}})),
    Forgery("many events", _own(*[TASK] * 500)),
    Forgery("bytes in another's place", _squatted),
)
