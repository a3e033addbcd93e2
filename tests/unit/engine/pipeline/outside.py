"""What is around a machine: it answers as told, and keeps what was asked and written."""

from typing import Any

from msgspec.structs import replace

from shared.engine.pipeline import effects as ef
from shared.engine.pipeline.driver import Driver
from shared.engine.pipeline.history import History
from shared.engine.pipeline.machine import RunMachine
from shared.engine.pipeline.notes import Notes
from shared.events import model as ev
from shared.events.command import Command
from shared.events.outcome import Outcome, ok
from shared.events.record import Lease
from shared.tools import registry
from tests.unit.engine.support import NOW, plan_of

NOOP = "- {step: start, tool: {kind: noop}}"
OURS = 5  # the epoch of the lease


class Outside:
    """Answers as told, and keeps what was asked and what was written. `answers` are by effect; a function is called."""

    def __init__(self, machine: Any, **answers: Any) -> None:
        self.machine, self.answers, self.now = machine, answers, NOW
        self.asked: list[ef.Effect] = []
        self.records: list[tuple[ev.Event, ...]] = []
        self.writers: list[str] = []

    def drive(self, steps: ef.Steps[Any]) -> Any:
        with Driver(steps) as driver:
            for effect in driver:
                self.asked.append(effect)
                try:
                    driver.answer = self.answer(effect)
                except Exception as error:
                    driver.fail(error)
        return driver.ended

    def answer(self, effect: ef.Effect) -> Any:
        name = type(effect).__name__
        if name in self.answers:
            given = self.answers[name]
            found = given(effect) if callable(given) else given
            return (self.now, found) if isinstance(effect, ef.Call) and isinstance(found, Outcome) else found
        match effect:
            case ef.Now():
                return self.now
            case ef.Ended(outcome=outcome):
                return self.now, outcome
            case ef.Sleep(until=until):
                self.now = until
            case ef.Flush() | ef.Send() | ef.Park():
                self.write()
            case ef.Fresh():
                return self.now
            case ef.TakeTurn():
                return 0.0
            case ef.Call():
                return self.now, ok(effect.task.name)
            case ef.Finish():
                (ended,) = self.machine.notes.note(effect.event)
                self.write()
                return ended
            case ef.FindCredentials():
                return ef.Found()
            case ef.IsStopping() | ef.IsPaused():
                return False
        return None

    def write(self) -> None:
        notes: Notes = self.machine.notes
        if events := notes.take():
            self.records.append(tuple(events))
            self.writers.append(notes.writer)
            notes.count(events)

    @property
    def names(self) -> list[str]:
        return [type(effect).__name__ for effect in self.asked]

    @property
    def said(self) -> list[list[str]]:
        return [[type(event).__name__ for event in record] for record in self.records]


def command(**fields: Any) -> Command:
    return replace(Command("x1", "start:1", "start", "d", "default", 0), **fields)


def lease(epoch: int = OURS, index: int = -1) -> Lease:
    return Lease("start:1", "start", (epoch, 1), f"w{epoch}", index, "default")


def machine_of(workflow: str, before: History | None = None, **fields: Any) -> RunMachine:
    step = plan_of(workflow).steps["start"]
    return RunMachine(step, command(**fields), lease(), registry.specs().__getitem__, {}, before=before)


def played(machine: Any, **answers: Any) -> Outside:
    outside = Outside(machine, **answers)
    outside.drive(machine.run())
    return outside
