"""What the code of today says of a recorded log: every answer to every execution, as plain values.

Left out is what is told in prose, and what depends on this version by its own nature. A broker in memory holds the log
as it was: the same bytes under the same subjects, sequences and times.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from services.cli.commands.describe import described
from services.cli.executions.logbook import Logbook, entries
from services.cli.executions.named_events import Canonical, InFormal
from services.cli.executions.result_output import failure_of, whole, whole_ctx
from services.cli.verify.checker import Checker
from services.cli.why.text import shape as why_shape
from services.router.reruns import Prepared, Reruns
from shared.answers.history.summary import Summary
from shared.answers.readmodel.entry import read
from shared.answers.readmodel.fold import fold
from shared.answers.readmodel.rows import Rows
from shared.answers.readmodel.tables import tables
from shared.answers.trace.critical_path import trace
from shared.answers.trace.shape import told
from shared.answers.why import explain
from shared.answers.why.facts import World
from shared.answers.why.view import viewed
from shared.bus.memory.broker import MemoryBroker
from shared.bus.memory.bus import MemoryBus
from shared.bus.memory.stream import Stored
from shared.bus.ports import Message
from shared.dsl.model.edition import source_of
from shared.errors import Forged
from shared.events import model as ev
from shared.events import subjects
from shared.events.record import Entry
from shared.events.request import Control
from shared.runtime.stores.plans import Plans
from tests.golden.files import Line, Recorded
from tests.support.memory_bus import memory_bus

LATER_S = 60.0
ENVELOPE = ("event_id", "event_type", "name", "entity_type", "status")
PROSE = frozenset({"text", "remedy", "message", "because"})


def planted(lines: Iterable[Line], partitions: int) -> MemoryBus:
    """A broker that holds these messages as they were."""
    bus = memory_bus(partitions)
    plant(bus.broker, lines)
    return bus


def plant(broker: MemoryBroker, lines: Iterable[Line]) -> None:
    for line in lines:
        stream = broker.stream_taking(line.subject)
        message = Message(line.subject, line.data, line.seq, None, line.at)
        stream.stored[line.seq] = Stored(message, line.at)
        stream.by_subject.setdefault(line.subject, []).append(line.seq)
        stream.last = max(stream.last, line.seq)


def executions(lines: Iterable[Line]) -> list[str]:
    """In the order in which they began, by partition."""
    begun = (line.subject for line in lines if line.subject.startswith(f"{subjects.EVENTS}."))
    return list(dict.fromkeys(subjects.parse_event(subject).execution_id for subject in begun))


class Asked(Struct):
    """An execution, and all that an answer needs."""

    bus: MemoryBus
    plans: Plans
    partitions: int
    now: float
    execution_id: str
    entries: list[Entry]

    @property
    def book(self) -> Logbook:
        return Logbook(self.bus, self.execution_id, self.entries, self.plans)

    @property
    def steps(self) -> list[str]:
        found = (event.step for _, record in self.entries for event in record.events
                 if isinstance(event, ev.StepScheduled))
        return list(dict.fromkeys(found))


async def answers(log: Recorded) -> dict[str, Any]:
    """Of all executions, by their ids."""
    bus = planted(log.lines, log.partitions)
    plans, now = Plans(bus), max(line.at for line in log.lines) / 1e9 + LATER_S
    found: dict[str, Any] = {}
    for execution_id in executions(log.lines):
        asked = Asked(bus, plans, log.partitions, now, execution_id, await entries(bus, execution_id, log.partitions))
        found[execution_id] = await _answers(asked)
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode({"executions": found, "rows": rows(log)}))
    return plain


async def _answers(asked: Asked) -> dict[str, Any]:
    return {
        "verify": await _verified(asked),
        "get": await _got(asked),
        "describe": await described(asked.book),
        "why": await _why(asked),
        "trace": _traced(asked),
        "events": _envelopes(await Canonical().of(asked.entries)),
        "formal": _envelopes(await InFormal(asked.bus).of(asked.entries)),
        "rerun": {step: await _rerun(asked, step) for step in ("", *asked.steps)},
    }


def _traced(asked: Asked) -> dict[str, Any]:
    """The path; the spans of single runs are what it is made of."""
    found = told(trace(asked.execution_id, asked.entries, asked.now))
    return {key: value for key, value in found.items() if key not in ("runs", "top")}


async def _verified(asked: Asked) -> dict[str, Any]:
    found = await Checker(asked.bus, asked.partitions, None, 0.0).one(asked.execution_id)
    assert found is not None
    verdict, _ = found
    wrong = [(violation.rule, violation.seq) for violation in verdict.violations]
    return {"verdict": verdict.verdict, "status": verdict.status, "proof": verdict.proof, "wrong": wrong}


async def _got(asked: Asked) -> dict[str, Any]:
    summary = Summary(asked.execution_id)
    for record in asked.book.records:
        summary.apply(record)
    shown = summary.as_dict()
    shown |= {"ctx": await whole_ctx(asked.bus, shown["ctx"]), "result": await whole(asked.bus, summary.result)}
    return {**shown, "failure": await failure_of(asked.bus, summary)}


async def _why(asked: Asked) -> Any:
    book = asked.book
    world = World(asked.now)

    def explained() -> Any:
        view = viewed(asked.execution_id, asked.entries, book.plans, book.values)
        return why_shape(explain.explain(view, world, book.plans, book.values))

    return _without_prose(await book.ask(explained))


def _without_prose(value: Any) -> Any:
    match value:
        case dict():
            return {key: _without_prose(each) for key, each in value.items() if key not in PROSE}
        case list():
            return [_without_prose(each) for each in value]
    return value


def _envelopes(found: Iterable[dict[str, Any]]) -> list[str]:
    """Without their payloads, which are compared with the bytes of their records, and what follows from those."""
    return [" ".join(str(each[key]) for key in ENVELOPE if each.get(key)) for each in found]


async def _rerun(asked: Asked, step: str) -> Any:
    """From a step, or from what failed."""
    wish = Control(asked.execution_id, by="golden", name=step)
    found = await Reruns(asked.bus, asked.plans, asked.partitions).prepare(wish, "again")
    if not isinstance(found, Prepared):
        return "refused"
    return {"request": found.request, "playbook": source_of(found.plan.digest), "restored": found.restored}


def rows(log: Recorded) -> dict[str, Any]:
    """Of the read model; its events are asked for above."""
    found = Rows()
    for line in log.lines:
        if line.subject.startswith(f"{subjects.EVENTS}."):
            try:
                fold(found, read(Message(line.subject, line.data, line.seq, None, line.at), log.partitions))
            except Forged:
                continue  # as every reader does
    return {name: table for name, table in tables(found).items() if name != "event"}
