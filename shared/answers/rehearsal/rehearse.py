"""An execution from its request to its end, with the deciders of the services and without the services: no broker, no
tools, and a clock that jumps to the next thing due. Whoever rehearses answers the calls.

    found = rehearse(plan, answer, kinds, Opening(payload={"city": "Oslo"}))
    found.status, found.state.ctx, result_of(found), found.needs

1. `answer(need)` says what the result of a call is: an `Outcome`, at once; `Took`, after some virtual time; `Waits` or
   `Awaits`, the task waits without a worker as it would in the services; `Never`, it does not come back; None, nobody
   knows: that run stays where it is and the rest continues as far as it can.
2. The log of a rehearsal is real: `verify` accepts it, `Summary` shows it.
3. `wishes` come from outside: signals, cancel, pause, resume.
4. A `chooser` says what happens next of all that can: `FirstReady` the first, `Seeded` any. `faults` are seeded too.
5. It ends by itself or by `limits`, whatever the playbook and the answers do.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from shared.answers.history.summary import awaited
from shared.answers.rehearsal.setting import Conditions, Opening
from shared.answers.rehearsal.stage import Stage
from shared.answers.rehearsal.types import Answer, Rehearsed, Wish
from shared.dsl.model.plan import Plan
from shared.dsl.model.tool_spec import ToolSpec
from shared.engine.routing.state import Execution
from shared.engine.values.stored_values import resolve
from shared.events.outcome import Result

OPENING = Opening()
CONDITIONS = Conditions()


def rehearse(
    plan: Plan, answer: Answer, kinds: Mapping[str, ToolSpec], opening: Opening = OPENING,
    conditions: Conditions = CONDITIONS, wishes: Sequence[Wish] = (),
) -> Rehearsed:
    """`kinds` are the tool kinds, whose keys are rendered."""
    stage = Stage(plan, answer, kinds, opening, conditions)
    stage.begin(opening)
    for at, wish in enumerate(wishes):
        stage.expect(stage.now + wish.after, wish.event, wish.source or f"wish-{at}")
    began = stage.now
    reason = stage.play()
    state = stage.router.state
    status = _status(state, reason)
    return Rehearsed(
        execution_id=opening.execution_id, status=status, state=state, schedule=stage.scheduler.state,
        reason=_reason(stage, reason) if status == "stuck" else reason, entries=stage.log.entries,
        values=stage.log.values, calls=stage.calls, needs=stage.needs, crashes=stage.crashes,
        seconds=stage.now - began,
    )


def _status(state: Execution, reason: str) -> Literal["completed", "failed", "cancelled", "stuck", "limit"]:
    if state.status in ("completed", "failed", "cancelled"):
        return state.status
    return "limit" if reason.startswith("over ") else "stuck"


def _reason(stage: Stage, reason: str) -> str:
    """What it is that does not come."""
    if stage.needs:
        need = stage.needs[0]
        more = f", and {len(stage.needs) - 1} more" if len(stage.needs) > 1 else ""
        return f"nobody answers the call of task {need.task} ({need.kind}) in step {need.step}{more}"
    for wait in stage.scheduler.state.waits.values():
        if not wait.over:
            return f"run {wait.run_id} waits {awaited(wait.event)}, which does not come"
    return "the execution is paused" if stage.router.state.paused else reason


def result_of(found: Rehearsed) -> Any:
    """The result of the execution as people see it."""
    return plain(found.state.result, found.values)


def step_result(found: Rehearsed, step: str) -> Any:
    """The result of a step's last run; None when it has none."""
    return plain(found.state.results.get(step), found.values)


def plain(result: Result | None, values: Mapping[str, Any]) -> Any:
    """A result with its stored values; of a loop, the list of its results."""
    if result is None:
        return None
    whole = resolve(result, values)
    return whole.value["results"] if whole.shape == "loop" else whole.value
