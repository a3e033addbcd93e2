"""Tokens, runs, ctx and the end of the execution, counted from the router's own events."""

from collections.abc import Iterable, Iterator
from typing import Any

from shared.answers.history.history import BOUNDARY, History, Violation
from shared.engine.values.ctx_patch import apply_patch
from shared.errors import TemplateError
from shared.events import model as ev
from shared.events.record import Record


def check_tokens(history: History) -> Iterable[Violation]:
    """A token is made once and consumed once: scheduled, rejected or absorbed by a wave that has entered. Only an
    execution that is not completed leaves any. A compensation takes none."""
    made: dict[str, str] = {}
    live: dict[str, str] = {}
    for seq, _, event in history.events("router"):
        match event:
            case ev.TokenCreated(token_id=token, step=step):
                if token in made:
                    yield Violation("token", f"token {token} is made twice", seq)
                made[token] = live[token] = step
            case ev.StepScheduled(step=step, tokens=tokens) | ev.TokenJoined(step=step, tokens=tokens):
                undoing = isinstance(event, ev.StepScheduled) and bool(event.compensates)
                if undoing != (not tokens) or any(live.get(token) != step for token in tokens):
                    yield Violation("token", f"step {step} takes tokens {tokens}, which do not wait there", seq)
                if isinstance(event, ev.StepScheduled):
                    live = {token: at for token, at in live.items() if token not in tokens}
            case ev.TokenRejected(token_id=token, step=step) | ev.TokenAbsorbed(token_id=token, step=step):
                if live.pop(token, None) != step:
                    yield Violation("token", f"token {token} ends at {step}, where it does not wait", seq)
            case ev.PlaybookProcessed(status="completed") if live:
                yield Violation("token", f"completed with tokens left: {live}", seq)


def check_arcs(history: History) -> Iterable[Violation]:
    """The arcs a run selects put exactly their tokens, in the same decision."""
    for seq, record in history.by("router"):
        for at, event in enumerate(record.events):
            if not isinstance(event, ev.NextSelected):
                continue
            made = []
            for follower in record.events[at + 1 :]:
                if not isinstance(follower, ev.TokenCreated):
                    break
                made.append((follower.step, follower.parent_run_id))
            if made[: len(event.arcs)] != [(step, event.run_id) for step in event.arcs] or len(made) > len(event.arcs):
                yield Violation("token", f"run {event.run_id} selects {event.arcs}, its tokens are {made}", seq)


def check_runs(history: History) -> Iterable[Violation]:
    """A run is scheduled once and ends once, as what was reported of it before. What ended while the execution
    was being cancelled or compensated is no longer routed."""
    ends = history.run_ends()
    started: dict[str, ev.StepScheduled] = {}
    live: dict[str, ev.StepScheduled] = {}
    counts: dict[str, int] = {}
    stopping = False
    for seq, record, event in history.events("router"):
        match event:
            case ev.PlaybookCancelling() | ev.PlaybookCompensating():
                stopping = True
            case ev.StepScheduled(run_id=run_id, step=step):
                counts[step] = counts.get(step, 0) + 1
                if run_id in started or run_id != f"{step}:{counts[step]}":
                    yield Violation("run", f"run {run_id} is not run {counts[step]} of {step}, or comes twice", seq)
                started[run_id] = live[run_id] = event
            case ev.NextSelected(run_id=run_id) | ev.StepCancelled(run_id=run_id):
                run = live.pop(run_id, None)
                if run is None:
                    yield Violation("run", f"run {run_id} ends, but is not under way", seq)
                elif isinstance(event, ev.NextSelected):
                    yield from _check_end(run, ends.get(run_id, []), seq, record, event)
            case ev.PlaybookProcessed():
                left = sorted(run_id for run_id in live if not stopping or run_id not in ends)
                if left:
                    yield Violation("run", f"over with runs under way: {left}", seq)


def _check_end(
    run: ev.StepScheduled, ends: list[tuple[int, ev.Event]], seq: int, record: Record, event: ev.NextSelected
) -> Iterator[Violation]:
    if not run.pool:
        if event.event != "step.done":
            yield Violation("run", f"run {run.run_id} has no tool and ends as {event.event}", seq)
        return
    known = [end for at, end in ends if at <= record.as_of]
    if not known:
        yield Violation("run", f"run {run.run_id} ends, but nobody reported its end", seq)
    elif event.event not in (BOUNDARY.get(type(known[0])), "step.failed"):
        yield Violation("run", f"run {run.run_id} ends as {event.event}, reported otherwise", seq)


def check_ctx(history: History) -> Iterable[Violation]:
    """ctx changes only by the patches of a reported end, all of them in order, and by one more of a loop as a whole;
    steps see it as it is."""
    ends = history.run_ends()
    ctx: dict[str, Any] = {}
    made: dict[str, list[ev.Patch]] = {}
    for seq, _, event in history.events("router"):
        match event:
            case ev.PlaybookRestored(ctx=restored):
                ctx = restored
            case ev.CtxPatched(run_id=run_id, patch=patch):
                made.setdefault(run_id, []).append(patch)
                if not _reported(made[run_id], ends, run_id):
                    yield Violation("ctx", f"a patch of run {run_id} that its end does not have: {patch}", seq)
                try:
                    ctx = apply_patch(ctx, patch)
                except TemplateError as error:
                    yield Violation("ctx", f"run {run_id}: {error}", seq)
            case ev.NextSelected(run_id=run_id, event=boundary):
                end = ends.get(run_id, [(0, None)])[0][1]
                whole = end is not None and BOUNDARY.get(type(end)) == boundary
                told = _patches(ends, run_id)
                if whole and made.get(run_id, [])[: len(told)] != told:
                    yield Violation("ctx", f"run {run_id} ends without all patches of its end", seq)
            case ev.StepScheduled(run_id=run_id, scope=scope):
                wrong = sorted(key for key, value in scope.ctx.items() if key not in ctx or ctx[key] != value)
                if wrong:
                    yield Violation("ctx", f"run {run_id} is given another ctx than the log's: {wrong}", seq)


def check_waves(history: History) -> Iterable[Violation]:
    """Where waves are told apart, each enters once: the tokens of a run descend from the one before, and what
    is absorbed does not descend from the latest."""
    made: dict[str, dict[str, int]] = {}    # the latest waves a token descends from, by step
    passed: dict[str, dict[str, int]] = {}  # and a run, its own included
    latest: dict[str, int] = {}
    for seq, _, event in history.events("router"):
        match event:
            case ev.TokenCreated(token_id=token, parent_run_id=parent):
                made[token] = passed.get(parent, {})
            case ev.StepScheduled(run_id=run_id, step=step, tokens=tokens, wave=wave):
                pasts = [made.pop(token, {}) for token in tokens]
                if wave and any(past.get(step, 0) != latest.get(step, 0) for past in pasts):
                    yield Violation("token", f"run {run_id} takes tokens of a wave that has entered", seq)
                steps = {name for past in pasts for name in past}
                passed[run_id] = {name: max(past.get(name, 0) for past in pasts) for name in steps}
                if wave:
                    passed[run_id][step] = latest[step] = latest.get(step, 0) + 1
            case ev.TokenAbsorbed(token_id=token, step=step):
                if made.pop(token, {}).get(step, 0) >= latest.get(step, 0):
                    yield Violation("token", f"token {token} is absorbed at {step}, where its wave is open", seq)


def check_compensation(history: History) -> Iterable[Violation]:
    """Runs that completed are compensated once, one at a time, and all of them before the end."""
    ends = history.run_ends()
    owed: dict[str, None] = {}
    scheduled: dict[str, ev.StepScheduled] = {}
    current = ""
    for seq, _, event in history.events("router"):
        match event:
            case ev.StepScheduled(run_id=run_id, compensates=compensates):
                scheduled[run_id] = event
                if compensates and (current or not _is_owed(compensates, owed, scheduled, ends, seq)):
                    yield Violation("run", f"run {run_id} compensates {compensates}, which is not due", seq)
                if compensates:
                    owed.pop(compensates, None)
                    current = run_id
            case ev.NextSelected(run_id=run_id, event=boundary):
                current = "" if run_id == current else current
                if boundary != "step.failed" and run_id in scheduled and scheduled[run_id].undo:
                    owed[run_id] = None
            case ev.CompensationFailed(compensates=compensates):
                owed.pop(compensates, None)
            case ev.PlaybookProcessed(status="failed" | "cancelled") if owed:
                yield Violation("run", f"over without compensation of {sorted(owed)}", seq)


def _is_owed(
    run_id: str, owed: dict[str, None], scheduled: dict[str, ev.StepScheduled],
    ends: dict[str, list[tuple[int, ev.Event]]], seq: int,
) -> bool:
    """The last one that was routed; or one that completed too late to be routed."""
    if run_id in owed:
        return next(reversed(owed)) == run_id
    reported = [end for at, end in ends.get(run_id, []) if at < seq]
    return run_id in scheduled and scheduled[run_id].undo and bool(reported) and not isinstance(
        reported[0], ev.StepFailed)


def _patches(ends: dict[str, list[tuple[int, ev.Event]]], run_id: str) -> list[ev.Patch]:
    found = ends.get(run_id)
    return list(getattr(found[0][1], "ctx", ())) if found else []


def _reported(made: list[ev.Patch], ends: dict[str, list[tuple[int, ev.Event]]], run_id: str) -> bool:
    """What the loop itself writes follows from the plan, and is held against it with the decision."""
    told = _patches(ends, run_id)
    more = int(run_id in ends and isinstance(ends[run_id][0][1], ev.LoopDone))
    return made[: len(told)] == told[: len(made)] and len(made) <= len(told) + more


def check_ending(history: History) -> Iterable[Violation]:
    """`playbook.processed` comes once and last, right after `workflow.finished` when there was a start."""
    own = list(history.events("router"))
    begun = any(isinstance(event, ev.PlaybookStarted) for _, _, event in own)
    for at, (seq, _, event) in enumerate(own):
        match event:
            case ev.PlaybookProcessed(status=status):
                if at != len(own) - 1:
                    yield Violation("ending", "the router goes on after playbook.processed", own[at + 1][0])
                before = own[at - 1][2] if at else None
                if begun and before != ev.WorkflowFinished(status):
                    yield Violation("ending", f"playbook.processed does not follow workflow.finished ({status})", seq)
            case ev.WorkflowFinished():
                if at + 1 == len(own) or not isinstance(own[at + 1][2], ev.PlaybookProcessed):
                    yield Violation("ending", "workflow.finished without playbook.processed", seq)
