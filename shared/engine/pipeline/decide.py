"""The pipeline decider: the outcome of a task and its policy give a directive (V10 §5.4, PIPE).

- No policy: ok → continue, error → fail.
- Rules top to bottom, first match wins. A retry whose attempts are used up is passed over, and the
  outcome goes on to the next rule whose own `when` matches; `else` does not take it, and if there is none the run
  fails.
- No rule matches: continue; if the outcome was an error, `policy.unmatched` says so.
- An expression that fails in a rule fails the run with kind `template`. What the call came to is kept: after a success
  the outcome has its result, and `error.call` says ok; after a failure the run's error stays the call's, with that of
  the rule beside it (`rule_error`). The rules of a noop are about the call before it, so that a rule which is to handle
  a failure does not hide it.

`Progress` is the fold of the lease's `task.*` events: a worker that takes over folds them and continues
after the last finished task.
"""

import hashlib
import re
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shared.dsl.model.plan import Directive, Rule, Step, Task
from shared.dsl.read.task_policy import PREVIOUS
from shared.dsl.templates.budget import one_decision
from shared.dsl.templates.evaluate import evaluate, is_template, truth
from shared.dsl.templates.names import NOW
from shared.dsl.templates.result_view import headers_view, view
from shared.engine.pipeline.assertions import kept
from shared.engine.pipeline.task_loop import Each, after, element_iter, listed
from shared.engine.values import growth
from shared.engine.values.ctx_patch import apply_patch, lasting, refuse_stored, size_of
from shared.engine.values.scope import visible
from shared.engine.values.stored_values import Values, loaded_scope, resolve, resolve_ctx, resolve_scope
from shared.errors import TemplateError
from shared.events import model as ev
from shared.events.command import Command
from shared.events.failure import LIMIT, POLICY, Failure, shortened
from shared.events.fields import Growth
from shared.events.outcome import Outcome, Result, failed
from shared.events.record import trace_id

MAX_DELAY_S = 300.0
MAX_TASK_RUNS = 100_000  # per step-run: a jump cycle without a break must end
MAX_ERROR_BYTES = 16_384  # of a run's error, which routing and loops pass on; the task's outcome keeps it whole
MAX_ERROR_TEXT = 2_000
NOOP = "noop"
ENDED_AT = "now"  # in the meta of an outcome whose rules may ask for the time
_ITER_KEY = re.compile(r"\{\{\s*iter\.(\w+)\s*\}\}")


class Progress(Struct, frozen=True):
    """Where a run is: the current task, its attempt, and what the tasks before it left."""

    task: str
    state: Literal["running", "done", "failed"] = "running"
    attempt: int = 1
    iter: dict[str, Any] = {}
    ctx: dict[str, Any] = {}
    patches: tuple[ev.Patch, ...] = ()
    results: dict[str, Result] = {}
    prev: Result = Result()
    error: dict[str, Any] | None = None
    ran: int = 0
    waiting: str = ""
    answer: ev.TaskResumed | None = None
    each: Each | None = None
    handled: dict[str, Any] | None = None  # the failure of the last call, where a rule jumps on from it

    @property
    def wait(self) -> str:
        """The name of the task's wait: the same for everyone who begins the attempt again."""
        return f"{self.task}/{self.ran + 1}"

    @property
    def pause(self) -> str:
        """That of the wait before the attempt."""
        return f"{self.wait}/pause"


def begin(step: Step, command: Command, values: Values) -> Progress:
    iter_: dict[str, Any] = {}
    if step.loop is not None:
        iter_ = command.iter or {step.loop.iterator: command.item, "index": command.index, "count": command.count}
    ctx = loaded_scope(command.scope, command.scope_ref, values).ctx
    for patch in command.ctx:
        ctx = apply_patch(ctx, patch)
    return Progress(step.tasks[0].name, iter=iter_, ctx=ctx)


def task_at(step: Step, progress: Progress) -> Task:
    for task in step.tasks:
        if task.name == progress.task:
            return task
    raise LookupError(progress.task)


def entered(progress: Progress) -> Progress:
    """At the loop of a task: what was `iter` becomes `iter.parent`."""
    if progress.each is not None:
        return progress
    return replace(progress, each=Each(progress.ran, progress.iter, progress.ctx), iter={})


def around(command: Command, progress: Progress, values: Values) -> dict[str, Any]:
    """What the task's `loop.in` sees, at whatever element its loop is."""
    each = progress.each
    assert each is not None
    return names(command, replace(progress, iter=each.iter, ctx=each.ctx), values)


def at_element(task: Task, progress: Progress, items: list[Any] | Outcome) -> Progress | ev.TaskDone:
    """The progress with the current element; or the end of a task that has none to be called for."""
    each = progress.each
    assert each is not None
    assert task.loop is not None
    if isinstance(items, Outcome):
        return ev.TaskDone(task.name, progress.attempt, items, "continue" if items.status == "ok" else "fail")
    each = replace(each, of=len(items))
    return replace(progress, each=each, iter=element_iter(task.loop, items, each, progress.iter))


def names(command: Command, progress: Progress, values: Values) -> dict[str, Any]:
    """What the task's templates see (PIPE: runtime variables)."""
    scope = resolve_scope(command.scope, command.scope_ref, values)
    results = {name: resolve(found, values) for name, found in progress.results.items()}
    ctx = resolve_ctx(progress.ctx, values)
    scope = replace(scope, ctx=ctx, steps={**scope.steps, **results} if results else scope.steps)
    return visible(
        command.execution_id, scope, command.args, growth.shown(progress.iter, values),
        _prev=view(resolve(progress.prev, values)), _task=progress.task, _attempt=progress.attempt,
    )


def decide(step: Step, progress: Progress, outcome: Outcome, seen: dict[str, Any], key: str) -> list[ev.Event]:
    """What the finished attempt means. `seen` is `names(…)`; `key` seeds the jitter."""
    task = task_at(step, progress)
    if task.returns or task.select:
        outcome = kept(task, outcome)
    if progress.ran >= MAX_TASK_RUNS:
        outcome = failed(LIMIT, f"over {MAX_TASK_RUNS} tasks in one step-run: a cycle of jumps without a break")
        return [_done(task, progress, outcome, Directive("fail"), {}, {})]
    if task.rules is None:
        plain = Directive("continue" if outcome.status == "ok" else "fail")
        return [_done(task, progress, outcome, plain, {}, {})]
    return _ruled(step, task, task.rules, progress, outcome, seen, key)


@one_decision
def _ruled(
    step: Step, task: Task, rules: tuple[Rule, ...], progress: Progress, outcome: Outcome, seen: dict[str, Any],
    key: str,
) -> list[ev.Event]:
    seen = {**seen, "outcome": outcome_view(outcome, seen["execution_id"])}
    if ENDED_AT in outcome.meta:
        seen[NOW] = outcome.meta[ENDED_AT]
    try:
        return _by_rules(task, rules, progress, outcome, seen, key)
    except TemplateError as error:
        whose = task.title or f"policy of task {task.name}"
        broken = failed(error.kind, f"{whose}: {error}", meta=outcome.meta)
        if not step.hides:
            broken = _beside(outcome, broken.error or {}, task, progress)
        return [_done(task, progress, broken, Directive("fail"), {}, {})]


def _beside(outcome: Outcome, wrong: dict[str, Any], task: Task, progress: Progress) -> Outcome:
    """The outcome of the call, with what is wrong with its rules."""
    failure = outcome.error if outcome.error is not None or task.kind != NOOP else progress.handled
    if failure is not None:
        error = {**failure, "rule_error": wrong}
    else:
        error = wrong if task.kind == NOOP else {**wrong, "call": outcome.status}
    return replace(outcome, status="error", error=error)


def _by_rules(
    task: Task, rules: tuple[Rule, ...], progress: Progress, outcome: Outcome, seen: dict[str, Any], key: str
) -> list[ev.Event]:
    used_up = False
    for rule in rules:
        if rule.when is None and used_up and not task.else_takes_all:
            break
        if rule.when is not None and not truth(rule.when, seen):
            continue
        then = rule.then
        if then.do == "retry" and progress.attempt >= then.attempts:
            used_up = True
            continue
        set_iter = evaluate(then.set_iter, seen) if then.set_iter else {}
        set_ctx = evaluate(then.set_ctx, seen) if then.set_ctx else {}
        if set_ctx:
            refuse_stored(set_ctx)
            apply_patch(progress.ctx, set_ctx)  # a reducer that does not fit is the rule's fault
        if then.do != "retry" and (then.result or then.error):
            outcome = _answered(outcome, then, progress, seen)
        added: tuple[Growth, ...] = ()
        if set_iter:
            set_iter, added = growth.reduced(then.set_iter, set_iter, progress.iter, seen.get("iter", {}), outcome)
        if then.do == "retry":
            delay = backoff(then, progress.attempt, _seconds(evaluate(then.delay, seen)), key)
            return [ev.TaskRetried(task.name, progress.attempt, outcome, delay, set_iter, set_ctx, added)]
        collected = tuple(name for name, text in then.set_ctx.items() if _collected(text, progress))
        return [replace(_done(task, progress, outcome, then, set_iter, set_ctx), grow=added, collected=collected)]
    if used_up:
        return [_done(task, progress, _used_up(task, progress, outcome), Directive("fail"), {}, {})]
    unmatched: list[ev.Event] = []
    if outcome.status == "error":
        unmatched.append(ev.PolicyUnmatched(task.name, progress.attempt))
    return [*unmatched, _done(task, progress, outcome, Directive("continue"), {}, {})]


def _used_up(task: Task, progress: Progress, outcome: Outcome) -> Outcome:
    """A success that was not the one waited for fails as what it is."""
    if outcome.error is not None:
        return outcome
    message = f"{task} was tried {progress.attempt} times, and its rules ask for one more"
    return replace(outcome, status="error", error=Failure(POLICY, message, retryable=False).error())


def _answered(outcome: Outcome, then: Directive, progress: Progress, seen: dict[str, Any]) -> Outcome:
    """The outcome as the rule has it: the result of another task, or of an expression; another error."""
    if then.error:
        given = evaluate(then.error, seen)
        error = given if isinstance(given, dict) else Failure(POLICY, str(given), retryable=False).error()
        return replace(outcome, status="error", error=error)
    if is_template(then.result):
        whole, into = evaluate(then.result, seen), _collected(then.result, progress)
        return replace(outcome, result=whole, shape="value", ref=None, fields={}, into=into)
    other = progress.prev if then.result == PREVIOUS else progress.results.get(then.result, Result())
    return replace(outcome, result=other.value, shape=other.shape, ref=other.ref, fields=other.fields, into=other.into)


def _collected(given: Any, progress: Progress) -> str:
    """The name of what was collected, when an expression gives that and nothing else."""
    found = _ITER_KEY.fullmatch(given) if isinstance(given, str) else None
    return found[1] if found and isinstance(progress.iter.get(found[1]), growth.Grown) else ""


def _done(
    task: Task, progress: Progress, outcome: Outcome, then: Directive, set_iter: ev.Patch, set_ctx: ev.Patch
) -> ev.TaskDone:
    assert then.do != "retry"
    element, of = (progress.each.at, progress.each.of) if progress.each is not None else (-1, 0)
    return ev.TaskDone(
        task=task.name, attempt=progress.attempt, outcome=outcome, do=then.do, to=then.to, set_iter=set_iter,
        set_ctx=set_ctx, element=element, of=of,
    )


def _seconds(value: Any) -> float:
    try:
        return max(0.0, float(value))
    except (TypeError, ValueError):
        raise TemplateError(f"delay must be a number of seconds, not {value!r}") from None


def backoff(then: Directive, attempt: int, delay: float, key: str) -> float:
    """Seconds before the next attempt, with a jitter of ±10 % that depends on the key alone."""
    match then.backoff:
        case "linear":
            delay *= attempt
        case "exponential":
            delay *= then.multiplier ** min(attempt - 1, 32)
    spread = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=2).digest(), "big") / 65535
    return float(min(delay * (0.9 + 0.2 * spread), then.max_delay, MAX_DELAY_S))


def outcome_view(outcome: Outcome, execution_id: str) -> dict[str, Any]:
    """As templates see it. The trace is the execution's, and so not in the log of every call."""
    seen: dict[str, Any] = {
        "status": outcome.status,
        "result": view(Result(outcome.result, outcome.shape, None, outcome.fields)),
        "error": outcome.error,
        "meta": {**outcome.meta, "trace_id": trace_id(execution_id)},
    }
    for kind in ("http", "pg", "py"):
        if (fields := getattr(outcome, kind)) is not None:
            seen[kind] = fields
    if outcome.http is not None and "headers" in outcome.http:
        seen["http"] = {**outcome.http, "headers": headers_view(outcome.http["headers"])}
    return seen


_MOVES = frozenset({ev.TaskRetried, ev.TaskDone, ev.TaskWaiting, ev.TaskResumed})


def evolve(step: Step, progress: Progress, event: ev.Event) -> Progress:
    """The progress after a `task.*` event; others change nothing. A wait may be over before every worker that
    began the task has written that it waits. What concerns another task than the current one, or cannot be applied,
    changes nothing either."""
    if type(event) not in _MOVES:
        return progress
    if type(event) is ev.TaskDone:
        return _moved(step, progress, event) if _follows(step, progress, event) else progress
    match event:
        case ev.TaskRetried() if _follows(step, progress, event):
            patched = _patched(entered(progress) if task_at(step, progress).loop is not None else progress, event)
            return replace(patched, attempt=event.attempt + 1, ran=progress.ran + 1, waiting="", answer=None)
        case ev.TaskWaiting(wait=wait):
            over = progress.answer is not None and progress.answer.wait == wait
            return progress if over else replace(progress, waiting=wait)
        case ev.TaskResumed(wait=wait) if wait in (progress.wait, progress.pause):
            return replace(progress, waiting="", answer=event)
    return progress


def _moved(step: Step, progress: Progress, event: ev.TaskDone) -> Progress:
    """Behind a finished attempt, or at the next element of the task's loop."""
    outcome = event.outcome
    result = Result(outcome.result, outcome.shape, outcome.ref, outcome.fields, outcome.into)
    if event.element >= 0:
        progress = entered(progress)
    moved, each = _patched(progress, event), progress.each
    if each is not None:
        if event.do == "continue" and event.element + 1 < event.of:
            return replace(
                moved, attempt=1, ran=progress.ran + 1, waiting="", answer=None, each=after(each, result), iter={})
        moved = replace(moved, each=None, iter=each.iter)
        result = listed(each, result) if event.element >= 0 else result
    return replace(
        moved, attempt=1, ran=progress.ran + 1, waiting="", answer=None, prev=result,
        results={**progress.results, event.task: result}, handled=_handled(step, progress, event), **_next(step, event))


def _follows(step: Step, progress: Progress, event: ev.TaskRetried | ev.TaskDone) -> bool:
    """Whether the holder of the run can have reached this."""
    if event.task != progress.task or progress.state != "running":
        return False
    if type(event) is ev.TaskDone and event.do == "jump" and all(task.name != event.to for task in step.tasks):
        return False
    if event.set_ctx:
        try:
            apply_patch(progress.ctx, event.set_ctx)
        except TemplateError:
            return False
    return True


def _patched(progress: Progress, event: ev.TaskRetried | ev.TaskDone) -> Progress:
    set_iter, set_ctx = event.set_iter, event.set_ctx
    if not set_iter and not set_ctx and not event.grow:
        return progress
    iter_ = {**progress.iter, **set_iter} if set_iter else progress.iter
    iter_ = growth.grow(iter_, event.grow, event.outcome) if event.grow else iter_
    if not set_ctx:
        return replace(progress, iter=iter_)
    return replace(
        progress, iter=iter_, ctx=apply_patch(progress.ctx, set_ctx), patches=(*progress.patches, set_ctx)
    )


def _handled(step: Step, progress: Progress, event: ev.TaskDone) -> dict[str, Any] | None:
    """A noop makes no call: what is handled stays so behind it."""
    if event.outcome.error is not None:
        return _error(event, step) if event.do == "jump" else None
    return progress.handled if progress.handled is not None and task_at(step, progress).kind == NOOP else None


def _next(step: Step, event: ev.TaskDone) -> dict[str, Any]:
    """Where the progress is then."""
    match event.do:
        case "jump":
            return {"task": event.to}
        case "break":
            return {"state": "done"}
        case "fail":
            return {"state": "failed", "error": _error(event, step)}
    if event.task == step.tasks[-1].name:
        return {"state": "done"}
    labels = [task.name for task in step.tasks]
    return {"task": labels[labels.index(event.task) + 1]}


def _error(event: ev.TaskDone, step: Step) -> dict[str, Any]:
    error = event.outcome.error or Failure(POLICY, f"a rule of task {event.task} says fail", retryable=False).error()
    if len(msgspec.json.encode(error)) > MAX_ERROR_BYTES:
        short = shortened(error, MAX_ERROR_TEXT)
        error = {**short, "message": short["message"] + "…", "retryable": error.get("retryable", False)}
    at = {"element": event.element} if event.element >= 0 else {}
    # those of a sink are not the call's, and a call that went well has failed by none
    codes = {} if not step.hides and ("sink_error" in error or "call" in error) else _codes(event.outcome)
    return {**codes, "task": event.task, "attempt": event.attempt, **at, **error}


def _codes(outcome: Outcome) -> dict[str, Any]:
    """What arcs may read of a failed call: `error.status` of http, `error.code` of SQL."""
    found = {"status": (outcome.http or {}).get("status"), "code": (outcome.pg or {}).get("code")}
    return {name: value for name, value in found.items() if value is not None}


def ending(progress: Progress, *, iteration: bool) -> ev.Event:
    """The terminal event of a run or iteration whose progress is over."""
    patches = lasting(progress.patches, size_of(progress.patches)) if progress.patches else ()
    if progress.state == "failed":
        error = progress.error or {}
        return ev.IterationFailed(error, patches) if iteration else ev.StepFailed(error, patches)
    return ev.IterationDone(progress.prev, patches) if iteration else ev.StepDone(progress.prev, patches)
