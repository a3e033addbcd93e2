"""The routing decider: what follows from the state of one execution. The rules of the room are in `core.py`.

1. An ended run patches ctx, selects its arcs and puts a token on each target. Exclusive: the first arc that matches;
   inclusive: all. An arc without `when` matches when the step succeeded.
2. A failure is matched only against arcs whose `when` reads the event; the others are not evaluated. A failed run for
   which no arc matches fails the execution.
3. Where tokens meet, the step's join says which of them enter, and when (`joins.py`).
4. Entering: admission rules first; tokens that are denied are consumed. A step without tools ends at once, in the same
   decision; MAX_MOVES bounds a cycle of such steps.
5. With no token and no run left, the execution is completed. A failed or cancelled one is compensated before it ends.
6. A decision is one record, so it must fit into one message. One that does not is discarded, and the execution fails
   with the reason (`settled`): else it would be decided again, and be too large again, for ever.

What people wish comes first (`cancel_and_pause.py`). Deciding again after its own events yields nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, ParamSpec

import msgspec
from msgspec.structs import replace

from shared.dsl.model.plan import Arc, Plan, Step
from shared.dsl.templates.budget import Budget, one_decision, spend
from shared.dsl.templates.evaluate import evaluate, truth
from shared.dsl.templates.needs import names_used
from shared.engine.routing import cancel_and_pause, compensation
from shared.engine.routing.boundary_event import event_view
from shared.engine.routing.joins import Move, args_of, next_move, wave_of
from shared.engine.routing.request_terms import missing_step, priority_of
from shared.engine.routing.state import FREQUENT, LIVE, End, Execution, Fate, Run, Token, apply, draft, ended
from shared.engine.routing.workload import merge_workload, whole_scope
from shared.engine.scheduling.limits import limited
from shared.engine.values import time_limits
from shared.engine.values.ctx_patch import MAX_CTX_BYTES, apply_patch, over_limit, refuse_stored, work_of
from shared.engine.values.scope import NOTHING, narrow, visible
from shared.engine.values.stored_values import (
    MAX_RECORD_BYTES,
    MAX_WORKLOAD_BYTES,
    Values,
    resolve_scope,
    shrink,
)
from shared.errors import TemplateError
from shared.events import model as ev
from shared.events.failure import CTX, LIMIT, PLAYBOOK, POOL, REQUEST, TEMPLATE, Failure
from shared.events.request import Request
from shared.events.stamp import stamp

MAX_DEPTH = 32  # of executions that wait for each other
MAX_MOVES = 1000  # steps without tools entered in one decision; a cycle of them would never end
MAX_DECISION_BYTES = MAX_RECORD_BYTES - MAX_WORKLOAD_BYTES  # of args and scopes; the workload comes on top once
ENCODED = 6  # right shift: bytes of JSON written, to units of the budget
NO_VALUES: Values = {}
NO_POOLS: Mapping[str, str] = {}
Decision = tuple[list[ev.Event], Execution]  # and the draft at which it arrived
P = ParamSpec("P")


@one_decision
def begun(
    execution_id: str, request: Request, request_id: str, plan: Plan | str, now: float,
    restored: ev.PlaybookRestored | None = None, values: Values = NO_VALUES, pools: Mapping[str, str] | str = NO_POOLS,
    unready: tuple[str, str] | None = None,
) -> Decision:
    """The first decision. `plan` is the reason if there is none; `restored` what an earlier execution left; `pools`
    those chosen for steps that require capabilities, or why there are none; `unready` what is missing, if anything."""
    turn = _Turn(plan if isinstance(plan, Plan) else None, Execution(execution_id), now, values)
    labels = {**plan.labels, **request.labels} if isinstance(plan, Plan) else request.labels
    turn.emit(ev.ExecutionRequested(
        path=request.path, version=request.version, payload=request.payload, request_id=request_id,
        parent=request.parent, priority=request.priority, labels=labels, by=request.by,
    ))
    if isinstance(plan, str):
        return turn.refuse(REQUEST, plan)
    if request.refused:
        return turn.refuse(LIMIT, request.refused)
    if request.parent is not None and request.parent.depth > MAX_DEPTH:
        return turn.refuse(LIMIT, f"over {MAX_DEPTH} playbooks call each other: does {request.path} call itself?")
    if missing := missing_step(request, plan):
        return turn.refuse(PLAYBOOK, missing)
    if isinstance(pools, str):
        return turn.refuse(POOL, pools)
    if unready is not None:
        return turn.refuse(*unready)
    try:
        workload = merge_workload(plan, request.payload, execution_id, turn.ts)
    except TemplateError as error:
        return turn.refuse(error.kind, f"workload: {error}")
    size = len(msgspec.json.encode(workload))
    if size > MAX_WORKLOAD_BYTES:
        return turn.refuse(LIMIT, f"a workload of {size} bytes is over {MAX_WORKLOAD_BYTES}: pass a reference")
    try:
        limit = limited(plan.limit, whole_scope(execution_id, workload)) if plan.limit is not None else None
    except TemplateError as error:
        return turn.refuse(error.kind, f"limits.key: {error}")
    turn.emit(ev.RequestEvaluated(plan.digest, pools=dict(pools)))
    turn.emit(ev.PlaybookStarted(workload, priority_of(request, plan), limit))
    if restored is not None:
        turn.emit(restored)
    turn.emit(ev.WorkflowStarted())
    before, opening = draft(turn.state), turn.events[:]
    for token in restored.tokens if restored is not None else (ev.Restart(plan.start),):
        turn.put_token(token.step, token.args, "")
    turn.move()
    return turn.settled(before, opening)


@one_decision
def decided(plan: Plan, state: Execution, now: float, values: Values = NO_VALUES) -> Decision:
    if state.status not in LIVE:
        return [], state
    turn = _Turn(plan, draft(state), now, values)
    cancel_and_pause.wishes(turn)
    if turn.is_over():
        return turn.compensated()
    if turn.state.paused:
        return turn.events, turn.state
    for run in ended(state):
        turn.finish(run)
        if turn.is_over():
            return turn.settled(state)
    turn.move()
    return turn.settled(state)


def _events(decision: Callable[P, Decision]) -> Callable[P, list[ev.Event]]:
    @wraps(decision)
    def events(*args: P.args, **kwargs: P.kwargs) -> list[ev.Event]:
        return decision(*args, **kwargs)[0]

    return events


start, decide = _events(begun), _events(decided)  # for whoever folds the record


def names_at_end(plan: Plan, state: Execution, run: Run, values: Values = NO_VALUES) -> dict[str, Any]:
    """What the arcs of a run that has ended see, as of this state."""
    assert run.end is not None
    turn = _Turn(plan, draft(state), state.started, values)
    return turn.names_at_end(plan.steps[run.step], run, run.end)


def names_at_entry(
    plan: Plan, state: Execution, step: Step, tokens: Iterable[str], values: Values = NO_VALUES
) -> dict[str, Any]:
    """What the admission rules of a step see of the tokens that come to it, as of this state."""
    turn = _Turn(plan, draft(state), state.started, values)
    return turn.names_at_entry(step, tuple(state.tokens[token_id] for token_id in tokens))


def takes(arc: Arc, event: str, names: Mapping[str, Any]) -> bool:
    """Whether an arc matches the end of its step. On a failure most are not evaluated, so that nothing they read can
    hide it."""
    if event == "step.failed" and not arc.on_failure:
        return False
    return arc.when is None or truth(arc.when, names)


class _Turn:
    """One decision under way: a draft of the state and the events so far. Without a plan, all it can do is refuse."""

    __slots__ = ("events", "now", "plan", "state", "ts", "values")
    plan: Plan

    def __init__(self, plan: Plan | None, state: Execution, now: float, values: Values) -> None:
        if plan is not None:
            self.plan = plan
        self.state = state
        self.now = now
        self.ts = stamp(now)
        self.values = values
        self.events: list[ev.Event] = []

    def is_over(self) -> bool:
        """Nothing more is to be routed."""
        return self.state.status != "running"

    @property
    def caller(self) -> dict[str, Any]:
        """`iter` of the iteration that started this execution."""
        return self.state.parent.iter if self.state.parent is not None else {}

    def emit(self, event: ev.Event) -> None:
        self.events.append(event)
        if (change := FREQUENT.get(type(event))) is not None:
            change(self.state, event, 0)
        else:
            apply(self.state, event, self.ts)

    def compensated(self) -> Decision:
        """With a budget of its own: a decision that failed by using up its budget must still be compensated."""
        if self.state.status == "compensating":
            with Budget():
                compensation.advance(self)
        return self.events, self.state

    def settled(self, before: Execution, opening: list[ev.Event] | None = None) -> Decision:
        """The decision; or, if it does not fit into one record, `opening` and the failure of the execution (rule 6)."""
        decision = events, _ = self.compensated()
        heavy = _heavy(events)
        if not heavy:
            return decision
        size = len(msgspec.json.encode(shrink(self.state.execution_id, heavy)[0]))
        if size <= MAX_DECISION_BYTES:
            return decision
        turn = _Turn(self.plan, draft(before), self.now, self.values)
        message = f"args and scopes of {size} bytes in one decision, over {MAX_DECISION_BYTES}"
        advice = "name the step's result in a template instead of passing it"
        known = self.state.fate.error if self.state.fate is not None else self.state.error
        turn.fail(known or Failure(LIMIT, f"{message}: {advice}").error())
        events, after = turn.compensated()
        return (opening or []) + events, after

    # -- the end of a run --------------------------------------------------------------

    def finish(self, run: Run) -> None:
        assert run.end is not None
        step = self.plan.steps[run.step]
        end = self.patch_ctx(run, run.end) if run.end.ctx else run.end
        if end.event == "loop.done" and step.loop is not None and step.loop.set_ctx:
            end = self.patch_ctx(run, self.patched_by_loop(step, run, end, step.loop.set_ctx))
        try:
            arcs = self.select(step, run, end)
        except TemplateError as error:
            found = Failure(error.kind, f"next of step {step.name}: {error}", step=step.name).error()
            if end.event == "step.failed" and self.plan.edition > 3:  # why it failed stays the reason
                found = {**(end.error or {}), "step": step.name, "next_error": found}
            self.fail(found)
            return
        self.emit(ev.NextSelected(run.run_id, step.name, end.event, tuple([arc.step for arc, _ in arcs])))
        for arc, args in arcs:
            self.put_token(arc.step, args, run.run_id)
        if end.event == "step.failed" and not arcs:
            self.fail({**(end.error or {}), "step": step.name})
        elif run.undo and (limit := compensation.over_limit(self.state)):
            self.fail(Failure(LIMIT, limit, step=step.name).error())

    def patched_by_loop(self, step: Step, run: Run, end: End, patch: dict[str, Any]) -> End:
        """The end with what the loop as a whole writes to ctx: it sees what its iterations wrote."""
        try:
            found = evaluate(patch, self.names_at_end(step, run, end))
            refuse_stored(found)
        except TemplateError as error:
            failure = Failure(error.kind, f"set_ctx of the loop of step {step.name}: {error}", retryable=False)
            return End("step.failed", end.seq, error=failure.error())
        return replace(end, ctx=(found,))

    def patch_ctx(self, run: Run, end: End) -> End:
        # An upper bound of the size of ctx: measuring it for every patch of a loop would take seconds. It starts at the
        # limit, so the first patch measures, and later ones do only when their own sizes could reach the limit.
        bound = MAX_CTX_BYTES
        try:
            for patch in end.ctx:
                spend(work_of(self.state.ctx, patch))
                patched = apply_patch(self.state.ctx, patch)
                bound += len(msgspec.json.encode(patch))
                size = bound if bound <= MAX_CTX_BYTES else len(msgspec.json.encode(patched))
                spend(size >> ENCODED if size != bound else 1)
                bound = size
                if size > MAX_CTX_BYTES:
                    message = over_limit(patched, patch, size, bare=self.plan.edition < 4)
                    return End("step.failed", end.seq, error=Failure(LIMIT, message).error())
                self.emit(ev.CtxPatched(run.run_id, patch))
        except TemplateError as error:
            kind = CTX if error.kind == TEMPLATE else error.kind
            return End("step.failed", end.seq, error=Failure(kind, str(error), retryable=False).error())
        return end

    def select(self, step: Step, run: Run, end: End) -> list[tuple[Arc, dict[str, Any]]]:
        names: dict[str, Any] | None = None
        found: list[tuple[Arc, dict[str, Any]]] = []
        for arc in step.arcs:
            if names is None and (arc.when is not None or arc.args):
                names = self.names_at_end(step, run, end)
            if takes(arc, end.event, names or {}):
                found.append((arc, evaluate(arc.args, names or {}) if arc.args else {}))
                if step.mode == "exclusive":
                    break
        return found

    def names_at_end(self, step: Step, run: Run, end: End) -> dict[str, Any]:
        needs = names_used([[arc.when, arc.args] for arc in step.arcs] + ([step.loop.set_ctx] if step.loop else []))
        results = self.state.results
        if end.event != "step.failed":
            results = {**results, step.name: end.result}
        scope = narrow(needs, self.state.workload, self.state.ctx, results, self.caller)
        scope = resolve_scope(scope, None, self.values)
        event = event_view(end, self.values, former=step.former, bare=step.hides)
        return visible(self.state.execution_id, scope, run.args, event=event, _now=self.ts)

    # -- tokens ------------------------------------------------------------------------

    def put_token(self, step: str, args: dict[str, Any], parent: str) -> None:
        self.emit(ev.TokenCreated(f"t{self.state.tokens_made + 1}", step, args, parent))

    def move(self) -> None:
        """Enters every step that may be entered; ends the execution when nothing is left."""
        moves, state = 0, self.state
        while state.tokens and state.status == "running" and (move := next_move(self.plan, state)) is not None:
            moves += move.do == "enter" and not move.step.tasks
            if moves > MAX_MOVES:
                message = f"over {MAX_MOVES} steps were entered in one decision: a cycle of steps without tools"
                self.fail(Failure(LIMIT, message).error())
            else:
                self.make(move)
        if not state.tokens and not state.runs and state.status == "running":
            self.emit(ev.WorkflowFinished())
            self.emit(ev.PlaybookProcessed("completed", self.state.result))

    def make(self, move: Move) -> None:
        step = move.step
        if move.do == "enter":
            self.enter(step, move.tokens)
        elif move.do == "absorb":
            entered = f"{step.name}:{self.state.counts[step.name]}"
            for token in move.tokens:
                self.emit(ev.TokenAbsorbed(token.token_id, step.name, entered))
        else:
            reason = f"{len(move.tokens)} of {step.join} tokens came, and no other can"
            for token in move.tokens:
                self.emit(ev.TokenRejected(token.token_id, step.name, reason=reason))

    def enter(self, step: Step, tokens: tuple[Token, ...]) -> None:
        args, ids = args_of(tokens), tuple([token.token_id for token in tokens])
        if len(ids) > 1:
            self.emit(ev.TokenJoined(step.name, ids))
        if step.admit and not self.admitted(step, tokens):
            return
        run_id = f"{step.name}:{self.state.counts.get(step.name, 0) + 1}"
        wave, undo = wave_of(step, self.state), step.compensate is not None
        if step.tasks:
            self.schedule(step, run_id, ids, args, wave)
        else:
            self.emit(ev.StepScheduled(run_id, step.name, ids, args=args, wave=wave, undo=undo))
            self.finish(replace(self.state.runs[run_id], end=End("step.done", self.state.as_of)))

    def admitted(self, step: Step, tokens: tuple[Token, ...]) -> bool:
        names = self.names_at_entry(step, tokens)
        try:
            decided = next((i for i, rule in enumerate(step.admit) if rule.when is None or truth(rule.when, names)), -1)
        except TemplateError as error:
            self.fail(Failure(error.kind, f"admit of step {step.name}: {error}", step=step.name).error())
            return False
        if decided >= 0 and step.admit[decided].allow:
            return True
        for token in tokens:
            self.emit(ev.TokenRejected(token.token_id, step.name, decided))
        return False

    def names_at_entry(self, step: Step, tokens: tuple[Token, ...]) -> dict[str, Any]:
        """Of tokens that came together `event` is what made the last, as its args win."""
        needs = names_used([rule.when for rule in step.admit])
        scope = narrow(needs, self.state.workload, self.state.ctx, self.state.results, self.caller)
        scope = resolve_scope(scope, None, self.values)
        names = visible(self.state.execution_id, scope, args_of(tokens), _now=self.ts)
        if (end := tokens[-1].end) is not None and not step.former and "event" in needs.names:
            names["event"] = event_view(end, self.values, bare=step.hides)
        return names

    def schedule(self, step: Step, run_id: str, ids: tuple[str, ...], args: dict[str, Any], wave: int) -> None:
        state = self.state
        deadline, by = time_limits.first(self.plan, step, self.now, state.started)
        self.emit(
            ev.StepScheduled(
                run_id=run_id, step=step.name, tokens=ids, digest=self.plan.digest,
                pool=state.pools.get(step.name, step.pool), loop=step.loop is not None, args=args,
                scope=narrow(step.needs, state.workload, state.ctx, state.results, self.caller),
                deadline=deadline, due_by=by, wave=wave,
                undo=step.compensate is not None, limited=step.limit is not None,
            )
        )

    # -- the end of the execution ------------------------------------------------------

    def fail(self, error: dict[str, Any]) -> None:
        compensation.end(self, Fate("failed", error), "the execution failed")

    def refuse(self, kind: str, message: str) -> Decision:
        error = Failure(kind, message).error()
        self.emit(ev.RequestEvaluated("", error))
        self.emit(ev.PlaybookProcessed("failed", None, error))
        return self.events, self.state


def _heavy(events: list[ev.Event]) -> list[ev.Event]:
    """Those whose size depends on the author's data."""
    found: list[ev.Event] = []
    for event in events:
        if type(event) is ev.StepScheduled:
            if event.args or (event.scope is not NOTHING and event.scope != NOTHING):
                found.append(event)
        elif type(event) is ev.TokenCreated and event.args:
            found.append(event)
    return found
