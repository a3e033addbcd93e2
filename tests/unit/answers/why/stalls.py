"""Executions that stand still, and worlds around them, for the reasons of `why`."""

from typing import Any

from shared.answers.why import explain as why
from shared.answers.why.facts import Answer, Pool, Reason, Worker, World
from shared.answers.why.view import View, viewed
from shared.dsl.model.plan import Plan
from shared.events import model as ev
from shared.events.record import Epoch, Lease, Writer
from tests.unit.engine.support import NOW, Driver, plan_of

PLAIN = "- {step: start, tool: {kind: noop}}"
LOOP = """
- step: start
  loop: {in: "{{ range(5) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: noop}
"""
LATER = NOW + 60


class Stall(Driver):
    """An execution that goes as far as a test lets it."""

    def __init__(self, workflow: str, payload: dict[str, Any] | None = None, plan: Plan | None = None) -> None:
        super().__init__(plan or plan_of(workflow), payload=payload)
        self.control()

    def says(
        self, *events: ev.Event, index: int = -1, worker: str = "w1", epoch: Epoch = (1, 1), writer: Writer = "worker"
    ) -> None:
        """A worker's record about its lease of the first run."""
        self.append(writer, list(events), Lease("start:1", "start", epoch, worker, index))

    def control_says(self, *events: ev.Event, writer: Writer = "control") -> None:
        for event in events:
            self.append(writer, [event])

    def view(self) -> View:
        return viewed("x1", list(enumerate(self.log, 1)), lambda _: self.plan)

    def why(self, world: World | None = None, **facts: Any) -> Answer:
        return why.explain(self.view(), world or world_of(**facts), lambda _: self.plan)

    def doubts(self, world: World) -> frozenset[str]:
        return why.in_doubt(self.view(), world, lambda _: self.plan, {})

    def reason(self, cause: str, **facts: Any) -> Reason:
        answer = self.why(**facts)
        found = [reason for reason in answer.reasons if reason.cause == cause]
        assert len(found) == 1, [(reason.cause, reason.text) for reason in answer.reasons]
        return found[0]


def worker(name: str = "w1", *held: tuple[str, str, int], heard: float = LATER - 1) -> Worker:
    return Worker(name, "default", 2, frozenset(held), 4, heard)


def world_of(now: float = LATER, **facts: Any) -> World:
    facts.setdefault("pools", {"default": Pool("default")})
    return World(now, **facts)


def causes(answer: Answer) -> list[str]:
    return [reason.cause for reason in answer.reasons]
