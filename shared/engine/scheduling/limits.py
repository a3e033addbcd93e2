"""Places of limits: which runs of an execution wait for one, which hold one, and of which key.

1. A run whose step has a limit needs a place of the limit's key; of a loop, each iteration needs one. An execution
   whose playbook has a limit needs a place of its own, and sends nothing before it has it (`is_closed`).
2. Which of many executions gets the next place does not follow from the log of one. It is decided in the ledger of the
   key (`limit_ledger.py`), and `limit.granted` brings the answer into each log from outside (writer `control`).
3. A run is sent only when *its own log* has the grant. An entry in the ledger alone starts nothing, and whoever loads
   the execution derives the same command.
4. A place is held until the run ends, also while it is parked: the record that ends the run frees the place. There is
   no message for that which could get lost. A grant for something that has ended meanwhile is ignored.
5. The key is rendered from the frozen scope of the run, so every scheduler that loads it renders the same key. A key
   that cannot be rendered fails its step (`unusable`, for iterations `loops.py`): nothing may wait for a place of no
   key.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from shared.dsl.model.plan import Limit, Plan, Step
from shared.dsl.templates.budget import Budget, spend
from shared.dsl.templates.evaluate import evaluate, is_template
from shared.engine.scheduling.waits import run_key
from shared.engine.values.scope import visible
from shared.engine.values.stored_values import Values, resolve_scope
from shared.errors import TemplateError
from shared.events import model as ev
from shared.events.failure import Failure
from shared.events.fields import PRIORITY

if TYPE_CHECKING:
    from shared.engine.scheduling.state import Loop, Schedule

MAX_KEY = 512  # bytes of the rendered key; encoded as a key of the broker, each may become three
MAX_KEY_WORK = 2000  # units of its template: whoever takes over a partition renders the keys of all that waits
_TOO_MUCH = f"the template of a limit's key does too much work (limit {MAX_KEY_WORK} units)"
EXECUTION = ""  # the place of the execution itself
Plans = Callable[[str], Plan]
Iter = Callable[[Step, "Loop", int, Values], dict[str, Any]]


class Want(Struct, frozen=True):
    """A place that a run waits for or, if `granted`, holds. `at` is when it was first wanted, by the log."""

    execution_id: str
    limit: ev.Limited
    run_id: str = ""
    index: int = -1
    priority: int = PRIORITY
    at: str = ""
    granted: bool = False

    @property
    def holder(self) -> str:
        return holder(self.execution_id, run_key(self.run_id, self.index))


def holder(execution_id: str, at: str) -> str:
    return f"{execution_id}/{at}"


def limited(limit: Limit, names: Mapping[str, Any]) -> ev.Limited:
    """The limit with its key rendered; TemplateError when that gives no key."""
    with Budget(MAX_KEY_WORK, _TOO_MUCH):
        key = evaluate(limit.key, names)
    spend(0)  # the budget of the whole decision applies as well: many keys together may be too much
    if not _is_key(key):
        shown = repr(key[:60]) if isinstance(key, str) else type(key).__name__
        raise TemplateError(f"the key of a limit must be text of 1 to {MAX_KEY} bytes, not {shown}")
    return ev.Limited(str(key), limit.max, limit.count, limit.period_s)


def _is_key(key: Any) -> bool:
    if isinstance(key, int) and not isinstance(key, bool):
        return key.bit_length() <= MAX_KEY
    return isinstance(key, str) and 0 < len(key.encode(errors="replace")) <= MAX_KEY


def is_closed(state: "Schedule") -> bool:
    """Nothing of the execution may run yet."""
    return state.gate is not None and EXECUTION not in state.granted


def is_free(state: "Schedule", event: ev.StepScheduled, index: int = -1) -> bool:
    """The run, or the iteration, may be sent to its pool."""
    if is_closed(state):
        return False
    return not event.limited or run_key(event.run_id, index) in state.granted


def is_live(state: "Schedule", at: str) -> bool:
    """Whether the run, iteration or execution that this key names may still run."""
    if state.finished or at == EXECUTION:
        return not state.finished and state.gate is not None
    run_id, _, index = at.rpartition(".")
    if run_id in state.loops and index.isdigit():
        return int(index) in state.loops[run_id].live
    return at in state.runs


def fold_granted(state: "Schedule", event: ev.LimitGranted) -> None:
    """In place, on a draft. Something that has ended meanwhile holds nothing."""
    loop = state.loops.get(event.run_id)
    if event.run_id and event.run_id not in state.runs and (loop is None or event.index not in loop.live):
        return
    if not state.finished:
        state.granted[run_key(event.run_id, event.index)] = event.key


def forget(state: "Schedule", run_id: str) -> None:
    """The run has ended, and its iterations with it."""
    for at in [at for at in state.granted if at == run_id or at.startswith(f"{run_id}.")]:
        del state.granted[at]


def limit_of(
    step: Step, execution_id: str, event: ev.StepScheduled, values: Values, iteration: dict[str, Any] | None = None
) -> ev.Limited:
    """The limit of the run, or of the iteration, with its key rendered."""
    assert step.limit is not None
    if not is_template(step.limit.key):
        return limited(step.limit, {})
    scope = resolve_scope(event.scope, event.scope_ref, values)
    return limited(step.limit, visible(execution_id, scope, event.args, iteration))


def wants(plans: Plans, state: "Schedule", values: Values, iter_of: Iter) -> Iterator[Want]:
    """Every place that the execution waits for or holds. A key that cannot be rendered has failed its step."""
    if state.finished:
        return
    yield from gate(state)
    if is_closed(state):
        return
    for run_id, dispatch in state.runs.items():
        if dispatch.event.limited:
            yield from run_want(plans, state, run_id, values)
    for run_id, loop in state.loops.items():
        if loop.event.limited and loop.started is not None:
            yield from loop_wants(plans, state, run_id, sorted(loop.live), values, iter_of)


def gate(state: "Schedule") -> Iterator[Want]:
    """The place of the execution itself."""
    if state.gate is not None:
        yield Want(state.execution_id, state.gate, "", -1, state.priority, state.began, EXECUTION in state.granted)


def run_want(plans: Plans, state: "Schedule", run_id: str, values: Values) -> Iterator[Want]:
    dispatch = state.runs[run_id]
    step = plans(dispatch.event.digest).steps[dispatch.event.step]
    try:
        limit = limit_of(step, state.execution_id, dispatch.event, values)
    except TemplateError:
        return
    yield Want(state.execution_id, limit, run_id, -1, state.priority, dispatch.at, run_id in state.granted)


def loop_wants(
    plans: Plans, state: "Schedule", run_id: str, indexes: "list[int] | range", values: Values, iter_of: Iter
) -> Iterator[Want]:
    loop = state.loops[run_id]
    step = plans(loop.event.digest).steps[loop.event.step]
    for index in indexes:
        limit = limit_of(step, state.execution_id, loop.event, values, iter_of(step, loop, index, values))
        granted = run_key(run_id, index) in state.granted
        yield Want(state.execution_id, limit, run_id, index, state.priority, loop.at, granted)


def unusable(plans: Plans, state: "Schedule", values: Values) -> Iterator[ev.StepFailed]:
    """Plain runs whose key cannot be rendered."""
    for run_id, dispatch in state.runs.items():
        event = dispatch.event
        if event.limited and run_id not in state.granted:
            try:
                limit_of(plans(event.digest).steps[event.step], state.execution_id, event, values)
            except TemplateError as error:
                failure = Failure(error.kind, f"limits.key: {error}", retryable=False)
                yield ev.StepFailed(failure.error(), (), run_id, event.step)
