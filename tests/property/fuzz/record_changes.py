"""Records that are almost right: recorded ones with fields, order and bytes changed by chance."""

import random
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import msgspec

from shared.errors import Corrupt
from shared.events.record import Kept, Record, decode, encode
from shared.events.subjects import LEASED, event, partition_of
from tests.property.fuzz import byte_changes, tree_changes

PARTITIONS = 4
AT = 2_000_000_000 * 10**9  # the broker's time of every record that is put in
NASTY: tuple[Any, ...] = (
    None, 0, -1, 1, 2, 7, 2**31 - 1, 2**31, 2**63 - 1, 2**64, -(2**63), 10**30, 0.5, 1e308, True, "", "x", "start:1",
    "start:9", "9" * 300, "\x00", "\x1b]52;c;eA==\x07", "é" * 2000, [], {}, [[]], {"$append": 1}, {"$add": "x"},
    {"$merge": 5}, {"results": 5}, {"results": [{"$ref": 1}]}, "loop", "sql", "http", "continue", "jump", "fail",
    "break", "step.done", "worker", "iteration", "waiting", [1, 1], [AT, 1], [1, 2**31 - 1], "never",
    "2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z", ["a"] * 50, {"a": {"b": {"c": []}}},
)
KINDS = (
    "step.started", "lease.released", "task.started", "task.done", "task.retried", "task.waiting", "policy.unmatched",
    "step.done", "step.failed", "loop.iteration.done", "loop.iteration.failed", "loop.halted", "loop.frame.claimed",
    "loop.frame.failed", "next.selected", "loop.done", "task.resumed", "playbook.processed", "step.scheduled",
)
FIELDS: dict[str, Any] = {
    "task": "x", "attempt": 1, "outcome": {"status": "ok"}, "do": "continue", "wait": "x/1", "error": {},
    "run_id": "start:1", "step": "start", "event": "step.done", "reason": "",
}


def mutated(chance: random.Random, records: Sequence[Record]) -> Record | None:
    """None: no reader takes it."""
    try:
        return decode(message(chance, records), PARTITIONS)
    except Corrupt:
        return None


def message(chance: random.Random, records: Sequence[Record]) -> Kept:
    """Almost one of the records, where it stands or where another writer's would."""
    source = chance.choice(records)
    body = msgspec.json.decode(encode(source))
    other = msgspec.json.decode(encode(chance.choice(records)))
    for _ in range(chance.choice((0, 1, 1, 2, 3))):
        _change(chance, body, other)
    writer = source.writer if chance.random() < 0.8 else chance.choice(sorted(LEASED))
    if chance.random() < 0.5 and isinstance(body, dict):
        body["writer"] = writer
    data = msgspec.json.encode(body)
    if chance.random() < 0.1:
        data = byte_changes.mutated(chance, [data])
    pool = source.lease.pool if source.lease is not None else ""
    return Kept(event(partition_of(source.execution_id, PARTITIONS), source.execution_id, writer, pool), data, 1, AT)


def _change(chance: random.Random, body: Any, other: Any) -> None:
    match chance.randrange(6):
        case 0 if isinstance(body, dict) and isinstance(body.get("events"), list):
            kind = chance.choice(KINDS)
            body["events"].append({"event_type": kind, **deepcopy(FIELDS)})
        case 1 if isinstance(body, dict) and isinstance(body.get("events"), list) and body["events"]:
            chance.shuffle(body["events"])
            body["events"] = body["events"][: chance.randrange(1, len(body["events"]) + 1)]
        case 2 if isinstance(body, dict) and isinstance(body.get("lease"), dict):
            key = chance.choice(("run_id", "step", "epoch", "worker", "index", "pool"))
            body["lease"][key] = deepcopy(chance.choice((*NASTY, other.get("lease", {}).get(key))))
        case 3 if isinstance(body, dict) and isinstance(other.get("events"), list):
            body["events"] = deepcopy(other["events"])
        case _:
            tree_changes.change(chance, body, NASTY)
