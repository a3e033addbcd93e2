"""Runs what was recorded of an execution through another playbook, without calling a tool.

1. The request, and the end of every call by run, iteration, task, attempt and element, are taken from the log; names
   are what matches them, so a renamed step or task is a new one. The log does not keep how a call was rendered: its
   outcome is used although the call may read otherwise now, and the edit is reported.
2. Tasks without an effect (`noop`, `wait`) are not looked up but called again, unless they ask for the time.
3. Deciders read in the order of the log. `timeout_s` of steps is not judged: what the log has of a call was in time.
4. A call that the log does not have is needed; one that never came back does not come back here either.
"""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from shared.answers.history.history import Key
from shared.answers.rehearsal.rehearse import rehearse
from shared.answers.rehearsal.setting import Conditions, Limits, Opening
from shared.answers.rehearsal.types import Answer, Answered, Breaks, Decided, Need, Never, Rehearsed, Took
from shared.answers.replay.compare import Divergence, changed_workload, first_difference
from shared.answers.replay.order import Recorded
from shared.answers.replay.recording import Fact, Recording, is_opaque
from shared.dsl.model.plan import Cursor, Plan, Task
from shared.dsl.model.tool_spec import ToolSpec
from shared.engine.pipeline.decide import ENDED_AT
from shared.events import model as ev
from shared.events.outcome import Outcome, failed
from shared.events.run_index import of_frame

Verdict = Literal["identical", "diverges", "needs_calls"]
MADE_ANEW = ("noop", "wait")
NEVER_UNDER = 10_000  # events that a replay may have more than twice those of the log


class Replayed(Struct, frozen=True, kw_only=True):
    """`needs` are the calls that the log does not have; `notes` what a reader of the verdict should know."""

    execution_id: str
    path: str
    verdict: Verdict
    recorded: str
    status: str
    divergence: Divergence | None
    needs: list[Need]
    notes: list[str]
    rehearsed: Rehearsed


class Answers:
    """The recorded outcomes, each given once, and what was noticed on the way."""

    def __init__(self, recording: Recording, plan: Plan, natural: Answer) -> None:
        self._recording, self._plan, self._natural = recording, plan, natural
        self.notes: dict[str, None] = {}
        self._facts = {call: facts.copy() for call, facts in recording.facts.items()}

    def __call__(self, need: Need) -> Answered:
        if need.frame >= 0:
            return self._claimed(need)
        facts = self._facts.get((need.run_id, need.index, need.task, need.attempt, need.element))
        if facts:
            return self._given(need, facts.popleft())
        key = Key(need.run_id, need.index)
        if need.kind in MADE_ANEW:
            if self._recording.task(need.run_id, need.task) is None:
                self._note(f"task {need.task} of step {need.step} is new; it has no effect outside, and was made")
            elif self._recording.was_cut(key):
                return Never()
            return self._natural(need)
        if (broke := self._recording.broke(key)) is not None:
            return Breaks(broke[1], broke[0])
        return Never() if self._recording.was_cut(key) else None

    def _claimed(self, need: Need) -> Answered:
        """The rows of a frame are those that were claimed."""
        key = Key(need.run_id, of_frame(need.frame))
        at, end = self._recording.ends.get(key, (0.0, None))
        if end is None or self._recording.was_cut(key):
            return Never() if self._recording.was_cut(key) else None
        if _cursor(self._recording.plan, need.step) != _cursor(self._plan, need.step):
            self._note(f"the cursor of step {need.step} was edited; the rows that were claimed were used")
        return Decided((end,), at)

    def _given(self, need: Need, fact: Fact) -> Answered:
        before, now = self._recording.task(need.run_id, need.task), self._task(need)
        opaque = is_opaque(before, fact.event)
        if opaque and before == now:
            return Decided((fact.event,), fact.at)
        if need.kind == "noop" and ENDED_AT not in fact.event.outcome.meta:  # one that asks for the time is as it was
            made = self._natural(need)
            outcome = made if isinstance(made, Outcome) else failed("noop", "no outcome")
            return Took(replace(outcome, meta=fact.event.outcome.meta), at=fact.at, told=True)
        what = f"task {need.task} of step {need.step}"
        if opaque:
            self._note(f"{what}: the log has its outcome as a rule changed it; that one was used")
        if before is not None and _call(before) != _call(now):
            self._note(f"{what} was edited; its recorded outcome was used")
        return Took(fact.event.outcome, at=fact.at, told=True)

    def _task(self, need: Need) -> Task:
        return next(task for task in self._plan.steps[need.step].tasks if task.name == need.task)

    def _note(self, text: str) -> None:
        self.notes[text] = None


def _cursor(plan: Plan | None, name: str) -> Cursor | None:
    step = plan.steps.get(name) if plan is not None else None
    return step.loop.cursor if step is not None and step.loop is not None else None


def _call(task: Task) -> tuple[Any, ...]:
    """What its tool is called with."""
    return task.kind, task.config, task.spec, task.loop


def replay(
    recording: Recording, plan: Plan, kinds: Mapping[str, ToolSpec], natural: Answer, values: dict[str, Any]
) -> Replayed:
    """`natural` answers for tasks without an effect. Raises `Missing` for a stored value that is not among `values`."""
    request, recorded = recording.request, recording.history
    assert request is not None, "a log without a request"
    answers = Answers(recording, plan, natural)
    opening = Opening(
        execution_id=recording.execution_id, at=recording.start, payload=request.payload, parent=request.parent,
        request_id=request.request_id, priority=request.priority, restored=recording.restored,
    )
    conditions = Conditions(
        chooser=Recorded(recording), values=dict(values), timed=False,
        limits=Limits(events=NEVER_UNDER + 2 * sum(len(record.events) for _, record in recorded.entries)),
    )
    found = rehearse(plan, answers, kinds, opening, conditions, recording.wishes)
    differs = first_difference(recording, found, plan)
    notes = list(answers.notes)
    if changed := changed_workload(recording, found):
        notes.append(f"the workload differs from the recorded one: {', '.join(changed)}")
    verdict: Verdict = "diverges" if differs is not None else "needs_calls" if found.needs else "identical"
    ended = next((event.status for _, record in reversed(recorded.entries) for event in record.events
                  if isinstance(event, ev.PlaybookProcessed)), "running")
    status = "running" if found.status == "stuck" else found.status
    return Replayed(
        execution_id=recording.execution_id, path=request.path, verdict=verdict, recorded=ended, status=status,
        divergence=differs, needs=found.needs, notes=notes, rehearsed=found,
    )
