"""Everyone who reads a history: each gives something that can be compared."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any

import msgspec
from msgspec.structs import replace

from services.cli.executions.description import Portrait, shown
from shared.answers.debug.moment import Moment
from shared.answers.diff import shape as comparing_view
from shared.answers.history.summary import Summary
from shared.answers.readmodel import fold as projection
from shared.answers.readmodel.entry import Entry as Row
from shared.answers.readmodel.rows import Rows
from shared.answers.replay.recording import Recording
from shared.answers.rerun import loops as rerun_loops
from shared.answers.rerun import rerun
from shared.answers.trace import critical_path
from shared.answers.verify.verify import verify
from shared.answers.why import view as why_view
from shared.dsl.model.plan import Plan
from shared.engine.leases.lease_fit import Known
from shared.engine.pipeline import decide as pipeline
from shared.engine.pipeline import history as pipeline_history
from shared.engine.pipeline import local_history
from shared.engine.routing.core import RouterCore
from shared.engine.scheduling.core import SchedulerCore
from shared.engine.scheduling.state import Schedule
from shared.engine.values.stored_values import Missing
from shared.errors import Corrupt
from shared.events import model as ev
from shared.events.command import Command
from shared.events.record import Record
from tests.sim.books.playbooks import BOOKS
from tests.sim.checks import PLANS, read_histories, read_values
from tests.sim.run import live_in_peace

Entries = list[tuple[int, Record]]
NOW = 2_000_000_000.0
SPACE = 1000  # between the sequences of a history: others stand there


@cache
def recorded() -> tuple[list[Entries], dict[str, Any]]:
    world = live_in_peace(*(book.name for book in BOOKS))
    histories = [[(seq * SPACE, record) for seq, record in _renumbered(entries)]
                 for entries in read_histories(world).values()]
    return [entries for entries in histories if any(record.lease for _, record in entries)], read_values(world)


def _renumbered(entries: Entries) -> Entries:
    """Sequences from 1, `as_of` with them: far enough from each other for what is put between."""
    places = {seq: k for k, (seq, _) in enumerate(entries, 1)}
    known = sorted(places)
    return [(places[seq], replace(record, as_of=SPACE * sum(each <= record.as_of for each in known)))
            for seq, record in entries]


class Plans:
    """As a service has them."""

    def __call__(self, digest: str) -> Plan:
        return PLANS[digest]


ROUTER, SCHEDULER = RouterCore(Plans()), SchedulerCore(Plans())


def brought(work: Callable[[dict[str, Any]], Any], values: dict[str, Any]) -> Any:
    """A stored value that is not there makes a service wait: that is no way to fail. What is decided here was decided
    on other facts, so it may be corrupt by those that were put in: a service sets the execution aside."""
    try:
        return work(values)
    except (Missing, Corrupt):
        return None


def router(entries: Entries, values: dict[str, Any]) -> Any:
    state = ROUTER.empty("x")
    heard = [entry for entry in entries if entry[1].writer in (ROUTER.writer, *ROUTER.listens)]
    for entry in heard:
        ROUTER.stale(state, [entry])
        state = ROUTER.fold(state, [entry])
        ROUTER.unfit(state, entry)
    brought(lambda values: ROUTER.outgoing(state, heard, values, 0), values)
    brought(lambda values: ROUTER.decide(state, NOW, values), values)
    ROUTER.due(state)
    return replace(state, as_of=0)


def scheduler(entries: Entries, values: dict[str, Any]) -> Any:
    state = SCHEDULER.empty("x")
    heard = [entry for entry in entries if entry[1].writer in (SCHEDULER.writer, *SCHEDULER.listens)]
    for entry in heard:
        SCHEDULER.stale(state, [entry])
        state = SCHEDULER.fold(state, [entry])
        SCHEDULER.unfit(state, entry)
        brought(partial(_turn, state, entry), values)
    brought(lambda values: SCHEDULER.recover(state, values), values)
    SCHEDULER.due(state)
    return msgspec.to_builtins(replace(state, as_of=0), str_keys=True)


def _turn(state: Schedule, entry: tuple[int, Record], values: dict[str, Any]) -> None:
    SCHEDULER.outgoing(state, [entry], values, 0)
    SCHEDULER.decide(state, NOW, values)


def workers(entries: Entries, values: dict[str, Any]) -> Any:
    """As the next holder of each run reads it, and goes on with it."""
    found: list[Any] = []
    runs: dict[str, ev.StepScheduled] = {}
    local: set[str] = set()
    for seq, event in [(seq, event) for seq, record in entries if record.lease is None for event in record.events]:
        match event:
            case ev.StepScheduled(run_id=run_id, pool=pool) if pool:
                runs[run_id] = event
                found += [] if event.loop else [_held(entries, seq, event, -1, values)]
            case ev.LoopStarted(run_id=run_id, local=True):
                local.add(run_id)
            case ev.IterationStarted(run_id=run_id, first=first, count=count) if run_id in local:
                known = Known(runs[run_id].step, runs[run_id].pool, True, local=True, begun=first + count)
                rest = [record for at, record in entries if at > seq]
                found.append(local_history.accept_loop(rest, run_id, known))
            case ev.IterationStarted(run_id=run_id, first=first, count=count):
                found += [_held(entries, seq, runs[run_id], index, values) for index in range(first, first + count)[:3]]
    return found


def _held(entries: Entries, seq: int, event: ev.StepScheduled, index: int, values: dict[str, Any]) -> Any:
    about = (event.run_id, event.step, event.digest, event.pool)
    command = Command("x", *about, seq, event.args, event.scope, index=index)
    rest = [record for at, record in entries if at > seq]
    history = pipeline_history.accept(rest, event.run_id, index, pipeline_history.known(command))
    step = PLANS[event.digest].steps[event.step]
    return history, brought(lambda values: history.progress(step, pipeline.begin(step, command, values)), values)


def projected(entries: Entries, _values: dict[str, Any]) -> Any:
    rows = Rows()
    for seq, record in entries:
        projection.fold(rows, Row(0, seq, datetime(2030, 1, 1, tzinfo=UTC), record))
    rows.records.clear()
    rows.repeated.clear()
    for execution in rows.executions.values():
        execution.seq = 0
    return rows


def summarised(entries: Entries, _values: dict[str, Any]) -> Any:
    summary, portrait = Summary("x"), Portrait("x")
    for _, record in entries:
        summary.apply(record)
        portrait.apply(record)
    portrait.records = portrait.events = 0
    return summary.as_dict(), shown(portrait)


def explained(entries: Entries, values: dict[str, Any]) -> Any:
    view = brought(lambda values: why_view.viewed("x", entries, Plans(), values), values)
    return view.holds if view is not None else None


def checked(entries: Entries, values: dict[str, Any]) -> Any:
    execution_id = entries[0][1].execution_id
    found = brought(lambda values: verify(execution_id, entries, PLANS.__getitem__, values), values)
    return [each for each in found or () if "does not fit, and counts" not in each.message]


def traced(entries: Entries, _values: dict[str, Any]) -> Any:
    critical_path.trace("x", entries, NOW)
    comparing_view.side("x", entries, NOW)
    plan = next((PLANS[event.digest] for _, record in entries for event in record.events
                 if isinstance(event, ev.RequestEvaluated) and event.digest), None)
    recording = Recording("x", entries, plan)
    return recording.facts, recording.ends


def rerun_of(entries: Entries, values: dict[str, Any]) -> Any:
    loops = [event.run_id for _, record in entries for event in record.events
             if isinstance(event, ev.StepScheduled) and event.loop]
    return (
        brought(lambda values: rerun.what_failed("x", entries, values), values),
        rerun.from_step("x", entries, "start"),
        brought(lambda values: rerun_loops.leftovers("x", entries, loops, values), values),
    )


def moment(entries: Entries, values: dict[str, Any]) -> Any:
    def places(values: dict[str, Any]) -> Any:
        at = Moment("x", entries, len(entries), PLANS.__getitem__, values)
        return [at.run_at(key) for key in at.about]

    return brought(places, values)


FOLDS: tuple[Callable[[Entries, dict[str, Any]], Any], ...] = (
    router, scheduler, workers, projected, summarised, explained, checked, traced, rerun_of, moment,
)
