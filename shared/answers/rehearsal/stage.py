"""A rehearsal under way: the log, the two deciders, the queue of commands, the workers, and a clock that jumps."""

from collections.abc import Mapping, Sequence
from typing import Any

from shared.answers.rehearsal.deciders import Desk
from shared.answers.rehearsal.frame_run import FrameHold
from shared.answers.rehearsal.lease import Death, Died, LeaseHold
from shared.answers.rehearsal.limit_grants import Places
from shared.answers.rehearsal.local_run import LocalHold
from shared.answers.rehearsal.log import Key, Log
from shared.answers.rehearsal.order import Act, Dice, FirstReady, Ready
from shared.answers.rehearsal.setting import Conditions, Opening
from shared.answers.rehearsal.step_run import Hold
from shared.answers.rehearsal.types import Answer, Ended, Entry, Need
from shared.dsl.model.plan import Plan
from shared.dsl.model.tool_spec import ToolSpec
from shared.engine.pipeline.notes import Notes
from shared.engine.routing import decide as routing
from shared.engine.routing.core import RouterCore
from shared.engine.routing.state import is_over
from shared.engine.scheduling import waits as waiting
from shared.engine.scheduling.core import SchedulerCore, Wanted, stops
from shared.events import model as ev
from shared.events.command import Command
from shared.events.readers import Decider
from shared.events.record import Writer
from shared.events.request import Request
from shared.events.run_index import is_frame
from shared.events.stamp import seconds, stamp

MAX_DEATHS = 2  # of workers over one call: a rehearsal must end
TICK_S = 1e-6  # the finest time that a record tells


class Stage:
    def __init__(
        self, plan: Plan, answer: Answer, kinds: Mapping[str, ToolSpec], opening: Opening, conditions: Conditions
    ) -> None:
        self.plan, self.answer, self.kinds = plan, answer, kinds
        self.timed, self.watch = conditions.timed, conditions.watch
        self.now = self._began = seconds(stamp(opening.at))
        execution_id = opening.execution_id
        self.log = Log(execution_id, {} if conditions.values is None else conditions.values)
        self.calls: list[Need] = []
        self.needs: list[Need] = []
        self.crashes = 0
        self._dispatch = SchedulerCore(self._plan_of)
        self.router = Desk(RouterCore(self._plan_of), execution_id)
        self.scheduler = Desk(self._dispatch, execution_id)
        self._desks: dict[Decider, Desk[Any]] = {"router": self.router, "scheduler": self.scheduler}
        self._chooser = conditions.chooser or FirstReady()
        self._faults, self._limits = conditions.faults, conditions.limits
        self._dice = Dice(f"faults {conditions.seed}")
        self._inputs: list[tuple[float, ev.Event, str]] = []
        self._stops: list[tuple[float, str]] = []
        self._queue: list[tuple[float, Command]] = []
        self._holds: list[LeaseHold] = []
        self._zombies: list[LeaseHold] = []      # considered dead: their runs are given to others
        self._known: set[Key] = set()       # runs whose command was given out
        self._parked: dict[Key, str] = {}   # runs that wait, and for what
        self._taken: set[Key] = set()       # runs that someone has had: whoever takes one again claims it first
        self._deaths: dict[str, int] = {}
        self._places = Places(counted=conditions.timed)
        self._limited = plan.limit is not None or any(step.limit is not None for step in plan.steps.values())
        self._epochs = 0

    def _plan_of(self, digest: str) -> Plan:
        return self.plan

    # -- the whole ---------------------------------------------------------------------

    def begin(self, opening: Opening) -> None:
        request = Request(
            self.plan.path, self.plan.version, dict(opening.payload), parent=opening.parent, priority=opening.priority)
        events = routing.start(
            self.log.execution_id, request, opening.request_id, self.plan, self.now, opening.restored, self.log.values)
        self._decided(self.router, events)

    def expect(self, at: float, event: ev.Event, source: str) -> None:
        """Something from outside that comes at a time."""
        self._inputs.append((at, event, source))
        self._inputs.sort(key=lambda each: each[0])

    def play(self) -> str:
        """Until the execution is over, or nothing can proceed; returns why, if it is not over."""
        while not is_over(self.router.state):
            if self.is_over_events():
                return f"over {self._limits.events} events"
            ready = self._ready()
            chosen = self._chooser.choose(ready, self.now)
            if chosen is not None:
                self._do(ready[chosen])
                continue
            due = self._due()
            if due is None and ready:
                self._do(ready[0])
            elif due is None:
                return "nothing goes on"
            elif due - self._began > self._limits.seconds:
                return f"over {self._limits.seconds:.0f} seconds of virtual time"
            else:
                self.now = max(self.now, seconds(stamp(due)))
        for _, run_id in self._stops:
            self._stop(run_id)
        return ""

    def _ready(self) -> list[Ready]:
        """In the order in which the default takes them."""
        soon = self.now + TICK_S / 2
        found = [Ready("input", at) for at, _, _ in self._inputs[:1] if at <= soon]
        if self._places.again is not None and self._places.again <= soon:
            found.append(Ready("place", self._places.again))
        for name, desk in self._desks.items():
            due = desk.due()
            if desk.unread or (due is not None and due <= soon):
                found.append(Ready(name, seconds(desk.unread[0][1].ts) if desk.unread else self.now))
        found += [Ready("stop", at, run_id) for at, run_id in self._stops]
        found += [Ready("take", at, command.run_id, command.index) for at, command in self._queue]
        found += [Ready("work", hold.wake, *hold.key, hold.lease.epoch[0]) for hold in self._awake(soon)]
        return found

    def _awake(self, soon: float) -> list[LeaseHold]:
        held = (hold for hold in (*self._holds, *self._zombies) if hold.wake <= soon)
        return sorted(held, key=lambda hold: hold.wake)

    def _due(self) -> float | None:
        """When something happens that cannot happen yet."""
        soon = self.now + TICK_S / 2
        times = [at for at, _, _ in self._inputs] + [hold.wake for hold in self._holds]
        times += [due for desk in self._desks.values() if (due := desk.due()) is not None]
        times += [at for at in (self._chooser.due(self.now), self._places.again) if at is not None]
        return min((time for time in times if soon < time < float("inf")), default=None)

    def _do(self, ready: Ready) -> None:
        match ready.act:
            case "input":
                self._tell(*self._inputs.pop(0)[1:])
            case "place":
                self._grant()
            case "router" | "scheduler":
                self._turn(ready.act)
            case "stop":
                self._stops = [stop for stop in self._stops if stop[1] != ready.run_id]
                self._stop(ready.run_id)
            case "take":
                queued = [(command.run_id, command.index) for _, command in self._queue]
                self._take(self._queue.pop(queued.index((ready.run_id, ready.index)))[1])
            case "work":
                held = (*self._holds, *self._zombies)
                self._work(next(hold for hold in held if hold.lease.epoch[0] == ready.lease))

    # -- the log and its readers -------------------------------------------------------

    def _append(self, writer: Writer, n: int, events: list[ev.Event], **fields: Any) -> Entry:
        entry = self.log.append(writer, n, self.now, events, **fields)
        self._heard(entry)
        return entry

    def _heard(self, entry: Entry) -> None:
        for desk in self._desks.values():
            desk.hear(entry)

    def _tell(self, event: ev.Event, source: str) -> None:
        """What comes from outside; written twice, it is the same fact."""
        for _ in range(2 if self._dice.chance(self._faults.dup) else 1):
            self._append("control", 1, [event], source=source)

    def _turn(self, name: Decider) -> None:
        desk = self._desks[name]
        if self._dice.chance(self._faults.crash):
            self.crashes += 1
            desk.restart(self.log.entries)
            self._again(name)
        times = [seconds(record.ts) for _, record in desk.unread]
        news = desk.read(self._chooser.portion(name, times)) if desk.unread else []
        events = desk.decide(self.now, self.log.values)
        if not events and not news:  # nothing follows by time alone: what there is to read is read
            news = desk.read(len(desk.unread))
            events = desk.decide(self.now, self.log.values)
        if events:
            self._decided(desk, events)
            self._chooser.made(name)
        else:
            desk.looked = self.now
        if name == "scheduler" and self._limited:
            self._grant()
        if name == "scheduler" and (events or any(record.lease is None for _, record in news) or self._parked):
            self._issue()

    def _again(self, name: Act) -> None:
        """A scheduler that lost its state gives out what the log says is due, whoever has it."""
        if name == "scheduler":
            held = {hold.key for hold in self._holds}
            held |= {(command.run_id, command.index) for _, command in self._queue}
            for command in self._outstanding(lambda *key: key in self._known and key not in held):
                self._queue.append((self.now, command))

    def _decided(self, desk: Desk[Any], events: list[ev.Event]) -> None:
        state = desk.state
        entry = self._append(desk.core.writer, state.n + 1, self.log.small(events), as_of=state.as_of)
        desk.fold([entry])
        for event in entry[1].events:
            self._stops += [(self.now, stop.run_id) for stop in stops(self.log.execution_id, event)]

    # -- commands and workers ----------------------------------------------------------

    def _grant(self) -> None:
        """Places that are free go to those who wait for them."""
        wants = self._dispatch.wants(self.scheduler.state, self.log.values)
        for granted, source in self._places.grant(wants, self.now):
            self._tell(granted, source)

    def _issue(self) -> None:
        """The commands that are outstanding and were not given out: whoever remembers what it gave out need not follow
        the log record by record."""
        for command in self._outstanding(lambda *key: key not in self._known or self._resumes(key)):
            key = (command.run_id, command.index)
            self._known.add(key)
            self._parked.pop(key, None)
            for _ in range(2 if self._dice.chance(self._faults.dup) else 1):
                self._queue.append((self.now, command))

    def _resumes(self, key: Key) -> bool:
        if key not in self._parked:
            return False
        wait = self.scheduler.state.waits.get(waiting.run_key(*key))
        return wait is not None and wait.over and wait.event.wait == self._parked[key]

    def _outstanding(self, wanted: Wanted) -> list[Command]:
        return self._dispatch.commands(self.scheduler.state, self.log.values, wanted)

    def _take(self, command: Command) -> None:
        key = (command.run_id, command.index)
        if any(hold.key == key for hold in self._holds):
            return  # a second command of a run that someone has
        self._epochs += 1
        kind = FrameHold if is_frame(command.index) else Hold if command.local is None else LocalHold
        hold: LeaseHold = kind(self, command, (self._epochs, 1), fresh=key not in self._taken)
        self._taken.add(key)
        self._holds.append(hold)
        self._work(hold)

    def _work(self, hold: LeaseHold) -> None:
        try:
            alive = hold.go_on()
        except Died:
            alive = False
            if hold in self._holds:
                self._queue.append((self.now, hold.command))
        if not alive:
            for held in (self._holds, self._zombies):
                if hold in held:
                    held.remove(hold)

    def _stop(self, run_id: str) -> None:
        self._queue = [(at, command) for at, command in self._queue if command.run_id != run_id]
        for hold in [hold for hold in self._holds if hold.key[0] == run_id]:
            self._holds.remove(hold)
            hold.stop()

    # -- what a lease asks of it -------------------------------------------------------

    def is_over_events(self, more: int = 0) -> bool:
        return self.log.events + more > self._limits.events

    def write(self, notes: Notes, events: list[ev.Event]) -> None:
        entry = self._append(notes.writer, notes.n + 1, events, lease=notes.lease)
        notes.count(events)
        if self._dice.chance(self._faults.dup):
            self._heard(self.log.add(entry[1]))

    def parks(self, hold: LeaseHold, event: ev.TaskWaiting, ended: Ended | None) -> None:
        self._parked[hold.key] = event.wait
        if event.child is None or ended is None:
            return
        at = self.now + ended.seconds if ended.at is None else ended.at
        child = event.child.execution_id
        told = ev.ChildEnded(hold.key[0], event.wait, child, ended.status, hold.key[1], ended.result, ended.error)
        self.expect(max(at, self.now), told, child)

    @property
    def is_paused(self) -> bool:
        return self.router.state.paused

    def leaves(self, hold: LeaseHold) -> None:
        self._known.discard(hold.key)

    def death(self, call: str) -> Death:
        if not self._dice.chance(self._faults.crash):
            return ""
        self._deaths[call] = self._deaths.get(call, 0) + 1
        if self._deaths[call] > MAX_DEATHS:
            return ""
        self.crashes += 1
        deaths: Sequence[Death] = ("before", "after", "zombie")
        return deaths[self._dice.below(3)]

    def given_up(self, hold: LeaseHold) -> None:
        """The worker continues, but its run is given to another: two leases, of which the later counts."""
        self._holds.remove(hold)
        self._zombies.append(hold)
        self._queue.append((self.now, hold.command))
