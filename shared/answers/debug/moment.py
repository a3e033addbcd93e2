"""The state of an execution at any point of its log: what both deciders had folded, where every run was, and what would
be decided next."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from shared.answers.history.history import Entry, Key
from shared.dsl.model.plan import Plan, Step
from shared.engine.leases.lease_fit import fitting
from shared.engine.pipeline import decide as pipeline
from shared.engine.pipeline import history as pipeline_history
from shared.engine.pipeline.decide import Progress
from shared.engine.routing import state as execution
from shared.engine.routing.core import RouterCore
from shared.engine.routing.state import Execution
from shared.engine.scheduling import decide as scheduling
from shared.engine.scheduling import state as schedule
from shared.engine.scheduling.core import SchedulerCore
from shared.engine.scheduling.limits import Want
from shared.engine.scheduling.state import Dispatch, Loop, Schedule
from shared.engine.values.stored_values import Values
from shared.events import model as ev
from shared.events.classes import ENDS_RUN
from shared.events.command import Command
from shared.events.readers import FOLDED
from shared.events.record import Lease, Record
from shared.events.run_index import is_iteration, is_run
from shared.events.stamp import seconds, stamp

PlanOf = Callable[[str], Plan]


class RunAt(Struct, frozen=True):
    """A run, or an iteration of it, as far as its workers had got."""

    key: Key
    step: Step
    command: Command
    progress: Progress
    lease: Lease | None
    over: bool


class Moment:
    """The log up to and with the record at `position`, counted from 1. Asks for plans and stored values by raising
    PlanMissing and `Missing`."""

    def __init__(
        self, execution_id: str, entries: Sequence[Entry], position: int, plan_of: PlanOf, values: Values
    ) -> None:
        assert 1 <= position <= len(entries)
        self.execution_id, self.position, self.total = execution_id, position, len(entries)
        self.entries = entries[:position]
        self.seq, self.record = self.entries[-1]
        self.now = seconds(self.record.ts)
        self.plan_of, self.values = plan_of, values
        self._router, self._scheduler = RouterCore(plan_of), SchedulerCore(plan_of)
        self.state = Execution(execution_id)
        self.schedule = _scheduled(execution_id, self.entries)
        self._scheduled: dict[str, tuple[int, ev.StepScheduled]] = {}
        self.about: dict[Key, list[Entry]] = {}
        for seq, record in self.entries:
            if record.writer in FOLDED["router"]:
                self.state = execution.evolve(self.state, record, seq)
        for seq, record in fitting(self.entries):
            self._read(seq, record)

    @property
    def plan(self) -> Plan | None:
        return self.plan_of(self.state.digest) if self.state.digest else None

    def _read(self, seq: int, record: Record) -> None:
        if record.lease is not None:
            self.about.setdefault(Key(record.lease.run_id, record.lease.index), []).append((seq, record))
        for event in record.events:
            if isinstance(event, ev.TaskResumed):
                self.about.setdefault(Key(event.run_id, event.index), []).append((seq, record))
            elif isinstance(event, ev.StepScheduled):
                self._scheduled[event.run_id] = seq, event

    # -- what comes next ---------------------------------------------------------------

    def router_next(self) -> list[ev.Event]:
        """What the router decides once it has read this record."""
        return self._router.decide(self.state, self.now, self.values) if self.state.digest else []

    def scheduler_next(self) -> list[ev.Event]:
        return self._scheduler.decide(self.schedule, self.now, self.values)

    def commands(self) -> list[Command]:
        """What workers have, or are about to be given."""
        return self._scheduler.commands(self.schedule, self.values)

    def places_wanted(self) -> list[Want]:
        """Places of keys that runs, or the execution itself, wait for or hold."""
        return self._scheduler.wants(self.schedule, self.values)

    def due(self) -> str:
        """When something follows by time alone, at once at the soonest; empty when nothing does."""
        found = (self._router.due(self.state), self._scheduler.due(self.schedule))
        times = [time for time in found if time is not None]
        return stamp(max(min(times), self.now)) if times else ""

    # -- runs --------------------------------------------------------------------------

    def runs_at(self) -> Iterator[RunAt]:
        """Every run and iteration that is not over, as far as this record goes."""
        for run_id in self.schedule.runs:
            if (found := self.run_at(Key(run_id))) is not None:
                yield found
        for run_id, loop in self.schedule.loops.items():
            for index in sorted(loop.live):
                if (found := self.run_at(Key(run_id, index))) is not None:
                    yield found

    def run_at(self, key: Key) -> RunAt | None:
        """Also of a run that is over; None when it has not come into being."""
        if key.run_id not in self._scheduled:
            return None
        seq, event = self._scheduled[key.run_id]
        step = self.plan_of(event.digest or self.state.digest).steps[event.step]
        if not step.tasks or event.loop != is_iteration(key.index):
            return None
        command = self._command(step, key, seq, event)
        if command is None:
            return None
        records = self._records(key)
        known = pipeline_history.accept(records, key.run_id, key.index)
        progress = known.progress(step, pipeline.begin(step, command, self.values))
        leases = [each.lease for each in records if each.lease is not None and each.lease.index == key.index]
        lease = next((each for each in reversed(leases) if each.epoch == known.epoch), None)
        return RunAt(key, step, command, progress, lease, known.over)

    def _records(self, key: Key) -> list[Record]:
        """What was said of it, and of the local loop that it may be a part of."""
        found = list(self.about.get(key, []))
        if not is_run(key.index):
            found += self.about.get(Key(key.run_id), [])
        return [record for _, record in sorted(found, key=lambda entry: entry[0])]

    def _command(self, step: Step, key: Key, seq: int, event: ev.StepScheduled) -> Command | None:
        if not is_iteration(key.index):
            return scheduling.run_command(self.schedule, Dispatch(event, seq), fresh=False)
        loop = self._loop(key.run_id)
        if loop is None or loop.started is None or key.index >= loop.next:
            return None
        return scheduling.loop_commands(step, self.schedule, loop, [key.index], self.values, fresh=False)[0]

    def _loop(self, run_id: str) -> Loop | None:
        """Of a loop that is over: as it was before the record that ended it."""
        if run_id in self.schedule.loops:
            return self.schedule.loops[run_id]
        end = next((number for number, (_, record) in enumerate(self.entries)
                    for event in record.events if isinstance(event, ENDS_RUN) and event.run_id == run_id), None)
        return None if end is None else _scheduled(self.execution_id, self.entries[:end]).loops.get(run_id)


def _scheduled(execution_id: str, entries: Sequence[Entry]) -> Schedule:
    """In one go: a state is copied for every call."""
    read = [entry for entry in entries if entry[1].writer in FOLDED["scheduler"]]
    return schedule.evolve(Schedule(execution_id), read)


def position_of(entries: Sequence[Entry], at: str) -> int:
    """The record that `at` names: a sequence, `#n`, or a time; what lies between two is the earlier one. ValueError
    says what it could be."""
    if at.startswith("#") and at[1:].isdecimal():
        found = int(at[1:])
    elif at.isdecimal():
        found = sum(seq <= int(at) for seq, _ in entries)
    else:
        try:
            until = seconds(at)
        except (ValueError, OverflowError):
            raise ValueError(f"{at!r} is neither a sequence, nor #n, nor an RFC 3339 time") from None
        found = sum(seconds(record.ts) <= until for _, record in entries)
    if not 1 <= found <= len(entries):
        first, last = entries[0], entries[-1]
        raise ValueError(f"{at} is outside the log: records #1 … #{len(entries)}, sequences {first[0]} … {last[0]}, "
                         f"{first[1].ts} … {last[1].ts}")
    return found


def plain(value: Any) -> Any:
    """As JSON has it."""
    return msgspec.to_builtins(value, enc_hook=str, str_keys=True)
