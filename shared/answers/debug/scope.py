"""Expressions in the state of an execution: what its templates would have seen at that point of the log."""

from typing import Any

from shared.answers.debug.moment import Moment
from shared.answers.history.history import Key
from shared.dsl.templates.evaluate import evaluate, is_template
from shared.dsl.templates.needs import names_used
from shared.engine.pipeline import call as pipeline_call
from shared.engine.pipeline import decide as pipeline
from shared.engine.values.scope import visible
from shared.engine.values.stored_values import resolve_scope
from shared.errors import NoetlError, TemplateError
from shared.events import model as ev
from shared.events.run_index import is_iteration, iteration_part


class NoSuchRun(NoetlError):
    """The run does not exist at this point."""


def key_of(text: str) -> Key:
    """`fetch:2`, or `fetch:2.7` for an iteration. ValueError says how a run is written."""
    run_id, dot, index = text.partition(".")
    step, colon, number = run_id.rpartition(":")
    if not (step and colon and number.isdecimal()) or (dot and not index.isdecimal()):
        raise ValueError(f"{text!r} is not a run: write STEP:NUMBER, or STEP:NUMBER.ITERATION")
    return Key(run_id, int(index) if dot else -1)


def names_of(moment: Moment, key: Key | None) -> dict[str, Any]:
    """Without a run: workload, ctx and the results of steps so far."""
    state = moment.state
    if key is None:
        caller = state.parent.iter if state.parent is not None else {}
        scope = ev.Scope(state.workload, state.ctx, state.results, caller)
        return visible(state.execution_id, resolve_scope(scope, None, moment.values), {})
    run = moment.run_at(key)
    if run is None:
        raise NoSuchRun(f"there is no run {key.run_id}{iteration_part(key.index)} with tasks at record "
                       f"#{moment.position}{_iterations(moment, key)}")
    progress = run.progress
    if progress.state == "running" and pipeline.task_at(run.step, progress).loop is not None:
        progress = _at_element(moment, key)
    return pipeline.names(run.command, progress, moment.values)


def _iterations(moment: Moment, key: Key) -> str:
    if not is_iteration(key.index) and key.run_id in moment.schedule.loops:
        return f": it is a loop, name an iteration such as {key.run_id}.0"
    return ""


def _at_element(moment: Moment, key: Key) -> pipeline.Progress:
    run = moment.run_at(key)
    assert run is not None
    task = pipeline.task_at(run.step, run.progress)
    found = pipeline_call.arrived(task, run.command, run.progress, moment.values, {})
    return run.progress if isinstance(found, ev.TaskDone) else found


def evaluated(moment: Moment, expression: str, key: Key | None = None) -> Any:
    """TemplateError when it cannot be; a text without `{{ }}` is an expression as a whole."""
    source = expression if is_template(expression) else f"{{{{ {expression} }}}}"
    if "keychain" in names_used(source).names:
        raise TemplateError("keychain values are never in the log: only a worker that makes the call knows them")
    return evaluate(source, names_of(moment, key))
