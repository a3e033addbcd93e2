"""What must be true of a world when it is over."""

import hashlib
from typing import Any

import msgspec

from shared.answers.history.end import processed
from shared.answers.history.summary import Summary
from shared.answers.verify.reports import history_of
from shared.answers.verify.verify import verify
from shared.bus import kv, topology
from shared.engine.leases.lease_fit import fitting
from shared.errors import NoetlError
from shared.events import letter, subjects
from shared.events import model as ev
from shared.events.failure import WORKER_LOST
from shared.events.record import Record, readable
from tests.sim import checks_clocks, checks_leases
from tests.sim.books.playbooks import BOOKS, Expected, compiled
from tests.sim.world import PARTITIONS, Asked, World

MOST_LEDGERS = 400  # in one world; seldom more than a tenth of it
PLACES_OF = {"door": 1, "side": 2}  # of a playbook's own key: one
PLANS = {}
for _book in BOOKS:
    _plan = compiled(_book.source).plan
    assert _plan is not None, (_book.name, compiled(_book.source).diagnostics)
    PLANS[_plan.digest] = _plan


def check(world: World) -> list[str]:
    try:
        return world.problems + _check(world)
    except NoetlError as error:
        return [*world.problems, f"the history cannot be read: {error}"]


def _check(world: World) -> list[str]:
    found: list[str] = []
    histories = read_histories(world)
    values = read_values(world)
    for execution_id, records in histories.items():
        own = subjects.partition_of(execution_id, PARTITIONS)
        forged = {seq for partition, seq in world.forged if partition == own}
        violations = verify(execution_id, records, PLANS.__getitem__, values)
        named = {violation.seq for violation in violations if violation.rule == "record"} & forged
        violations = [violation for violation in violations if violation.seq not in named]
        found += [f"{execution_id} {violation}" for violation in violations[:3]]
        found += [f"{execution_id} nobody names the forged record {seq}" for seq, _ in records if seq in forged - named]
        histories[execution_id] = list(fitting(records))
    found += _check_requests(world, histories)
    found += _check_letters(world)
    found += _check_ends(world, histories)
    found += check_places(world, histories)
    found += _check_writes(world)
    found += checks_clocks.check(world, histories)[:3]
    if not found:
        found += _check_calls(world, histories) + _check_inputs(world) + checks_leases.check(world, histories)
    return found


def _check_writes(world: World) -> list[str]:
    """Schedulers that disagree do not write against each other as fast as the broker takes it."""
    written = world.broker.streams[kv.stream_of(topology.LIMITS)].last
    return [f"the ledgers of limits were written {written} times"] if written > MOST_LEDGERS else []


def _check_letters(world: World) -> list[str]:
    """Nobody is accused who did nothing wrong: a letter about a record is about a forged one."""
    forged = {f"{topology.events_stream(partition)}/{seq}" for partition, seq in world.forged}
    logs = tuple(f"{topology.events_stream(partition)}/" for partition in range(PARTITIONS))
    letters = (letter.read(stored.message.data) for stored in world.broker.streams[topology.DEAD].stored.values())
    return [f"a letter about {note.place}, which nobody forged: {note.reason}" for note in letters
            if note is not None and note.place.startswith(logs) and note.place not in forged]


def _check_ends(world: World, histories: dict[str, list[tuple[int, Record]]]) -> list[str]:
    """Of each execution one end is told, and it is the one in its log."""
    told = [stored.message.subject.split(".")[2:4] for stored in world.broker.streams[topology.ENDS].stored.values()]
    decided = sorted(
        [ended.status, execution_id] for execution_id, records in histories.items()
        for _, record in records if record.writer == "router" and (ended := processed(record)) is not None)
    return [] if sorted(told) == decided else [f"ends told {sorted(told)}, and decided {decided}"]


def read_histories(world: World) -> dict[str, list[tuple[int, Record]]]:
    histories: dict[str, list[tuple[int, Record]]] = {}
    for partition in range(PARTITIONS):
        for _, stored in sorted(world.broker.streams[topology.events_stream(partition)].stored.items()):
            history = histories.setdefault(subjects.parse_event(stored.message.subject).execution_id, [])
            history += readable([stored.message], PARTITIONS)
    return histories


def check_places(world: World, histories: dict[str, list[tuple[int, Record]]]) -> list[str]:
    """Never more than a key allows hold a place of it, from the record that grants it to the one that ends the run."""
    found = []
    moments: dict[str, list[tuple[int, int]]] = {}
    for execution_id, records in histories.items():
        stream = world.broker.streams[topology.events_stream(subjects.partition_of(execution_id, PARTITIONS))]
        for place, (key, seq) in _granted(records).items():
            end = _freed(records, place)
            if end is None:
                found.append(f"{execution_id} never gives back its place {place} of {key}")
                continue
            for at, change in ((seq, 1), (end, -1)):  # what happens within a millisecond happens at once here
                moments.setdefault(key, []).append((stream.stored[at].timestamp // 1_000_000, change))
    for key, changes in moments.items():
        held = most = 0
        for _, change in sorted(changes):
            held += change
            most = max(most, held)
        if most > PLACES_OF.get(key.partition("/")[0], 1):
            found.append(f"{most} hold a place of {key} at the same time")
    return found


def _granted(records: list[tuple[int, Record]]) -> dict[tuple[str, int], tuple[str, int]]:
    """The first grant of each place: its key and sequence."""
    found: dict[tuple[str, int], tuple[str, int]] = {}
    for seq, record in records:
        for event in record.events:
            if isinstance(event, ev.LimitGranted):
                found.setdefault((event.run_id, event.index), (event.key, seq))
    return found


def _freed(records: list[tuple[int, Record]], place: tuple[str, int]) -> int | None:
    run_id, index = place
    for seq, record in records:
        for event in record.events:
            match event:
                case ev.PlaybookProcessed():
                    return seq
                case ev.NextSelected(run_id=ended) | ev.StepCancelled(run_id=ended) if run_id and ended == run_id:
                    return seq
                case ev.LoopDone(run_id=ended) | ev.StepFailed(run_id=ended) if run_id and ended == run_id:
                    return seq
                case ev.IterationDone() | ev.IterationFailed() if record.lease is not None:
                    if index >= 0 and (record.lease.run_id, record.lease.index) == place:
                        return seq
    return None


def read_values(world: World) -> dict[str, Any]:
    """Stored values by checksum; those of the world fit into one chunk."""
    stored = world.broker.streams[topology.RESULTS].stored.values()
    return {hashlib.sha256(s.message.data).hexdigest(): msgspec.json.decode(s.message.data) for s in stored}


def _check_requests(world: World, histories: dict[str, list[tuple[int, Record]]]) -> list[str]:
    """One execution per request, and it ended where its playbook ends."""
    found = []
    left = {key: records for key, records in histories.items() if _parent(records) is None}
    found += _check_children(histories)
    for asked in sorted(world.asked, key=lambda asked: not asked.execution_id):
        started = next((key for key, records in left.items() if _same(asked, key, records)), None)
        if started is None:
            found.append(f"requests: {asked.book.name} {asked.payload} never started")
        else:
            found += _check_end(world, asked, started, left.pop(started))
    return found + [f"requests: execution {key} has no request of its own" for key in left]


def _parent(records: list[tuple[int, Record]]) -> ev.Parent | None:
    first = records[0][1].events[0]
    return first.parent if isinstance(first, ev.ExecutionRequested) else None


def _check_children(histories: dict[str, list[tuple[int, Record]]]) -> list[str]:
    """One child per wait, and what its parent heard of it is how it ended."""
    found = []
    places = []
    for key, records in histories.items():
        parent = _parent(records)
        if parent is None:
            continue
        places.append((parent.execution_id, parent.run_id, parent.index, parent.wait))
        end = _end_of(records)
        for _, record in histories[parent.execution_id]:
            for event in record.events:
                told = isinstance(event, ev.ChildEnded) and event.child == key and end is not None
                if told and (event.status, event.error) != (end.status, end.error):
                    found.append(f"child {key} ended as {end}, its parent heard {event}")
    return found + [f"two children for {place}" for place in set(places) if places.count(place) > 1]


def _end_of(records: list[tuple[int, Record]]) -> ev.PlaybookProcessed | None:
    ends = [event for _, record in records for event in record.events if isinstance(event, ev.PlaybookProcessed)]
    return ends[0] if ends else None


def _same(asked: Asked, execution_id: str, records: list[tuple[int, Record]]) -> bool:
    if asked.execution_id:
        return asked.execution_id == execution_id
    first = records[0][1].events[0]
    asks = (asked.book.name, asked.payload, asked.message_id)
    return isinstance(first, ev.ExecutionRequested) and (first.path, first.payload, first.request_id) == asks


def _check_end(world: World, asked: Asked, execution_id: str, records: list[tuple[int, Record]]) -> list[str]:
    summary = Summary(execution_id)
    for _, record in records:
        summary.apply(record)
    ctx = {key: sorted(value) if isinstance(value, list) else value for key, value in summary.ctx.items()}
    result = summary.as_dict()["result"]
    got = Expected(summary.status, result, ctx, (summary.error or {}).get("kind", ""))
    expected = asked.book.expected(asked.payload)
    if asked.cancelled and summary.status == "cancelled":
        return _check_cancelled(execution_id, records)
    if execution_id in world.table.taken and got.status == "completed":
        return _check_rows(world, asked, execution_id, set(got.ctx.get("seen", ())))
    if got != expected and _lost_workers(records):
        return []  # its leases are in the log: `verify` has counted them
    return [] if got == expected else [f"end of {asked.book.name} {execution_id}: {got}, expected {expected}"]


def _lost_workers(records: list[tuple[int, Record]]) -> bool:
    errors = [getattr(event, "error", None) for _, record in records for event in record.events]
    return any(isinstance(error, dict) and error.get("kind") == WORKER_LOST for error in errors)


def _check_rows(world: World, asked: Asked, execution_id: str, seen: set[int]) -> list[str]:
    """A row that was claimed for good was worked on. One that another worker held when nothing else was left is
    still there for the next loop."""
    lost, strange = world.table.taken[execution_id] - seen, seen - set(range(asked.payload["rows"]))
    return [f"rows of {execution_id}: {lost} are lost, {strange} never were"] if lost or strange else []


def _check_cancelled(execution_id: str, records: list[tuple[int, Record]]) -> list[str]:
    events = [event for _, record in records for event in record.events]
    begun = any(isinstance(event, ev.PlaybookCancelling) for event in events)
    return [] if begun else [f"{execution_id} was cancelled without a word"]


def _check_inputs(world: World) -> list[str]:
    """A call with an effect that is made again, with the same key, is made with the same input: what it was made of was
    in the log before."""
    asked: dict[str, str] = {}
    return [
        f"call: {entry.key} by {entry.worker} with {entry.asked}, before with {asked[entry.key]}"
        for entry in world.ledger if entry.asked and asked.setdefault(entry.key, entry.asked) != entry.asked
    ]


def _check_calls(world: World, histories: dict[str, list[tuple[int, Record]]]) -> list[str]:
    """A task whose end is in the log, and counts, is not called again by a later lease."""
    done: dict[str, tuple[int, int, tuple[int, int]]] = {}
    for execution_id, records in histories.items():
        partition = subjects.partition_of(execution_id, PARTITIONS)
        for key, held in history_of(execution_id, records).held.items():
            index = f".{key.index}" if key.index >= 0 else ""
            ran = 0
            for seq, record in held.kept:
                assert record.lease is not None
                for event in record.events:
                    if isinstance(event, ev.TaskDone | ev.TaskRetried):
                        ran += 1
                        call = f"{execution_id}/{key.run_id}{index}/{event.task}/{ran}"
                        done[call] = (partition, seq, record.lease.epoch)
    found = []
    for entry in world.ledger:
        partition, seq, epoch = done.get(entry.key, (0, entry.ends[0] + 1, (0, 0)))
        if entry.ends[partition] >= seq and entry.epoch > epoch:
            found.append(f"call: {entry.key} by {entry.worker} under {entry.epoch}, done under {epoch} before")
    return found
