"""Two histories of one execution, decision by decision: the first of the recorded ones that the other made otherwise.

Decisions are told apart by what they are about (a run, the call of a task, a token's step), not by their place, so
that two that do not depend on each other may come in any order. What a stopped run still did is compared only where
both have it."""

from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct

from shared.answers.history.history import BOUNDARY, History, Key
from shared.answers.rehearsal.conditions import because_admission, because_arcs, because_rules
from shared.answers.rehearsal.types import Entry, Rehearsed
from shared.answers.replay.recording import Recording
from shared.dsl.model.plan import Plan
from shared.events import model as ev

What = Literal["request", "args", "task", "loop", "result", "ctx", "arcs", "admission", "join", "end", "path"]
Subject = tuple[Any, ...]
NOTHING = "nothing"
ENTERS = "a run of it"


class Decision(Struct, frozen=True):
    what: What
    value: Any
    seq: int
    step: str = ""
    run_id: str = ""
    index: int = -1
    task: str = ""
    attempt: int = 0


class Divergence(Struct, frozen=True, kw_only=True):
    """The log decided `log`, this playbook decides `new`; `because`: what decided it, as far as that is a
    condition. `seq` is the record of the log, `line` that of the step."""

    what: What
    step: str
    run_id: str
    index: int
    task: str
    log: Any
    new: Any
    because: list[dict[str, Any]]
    seq: int
    line: int


def changed_workload(recording: Recording, found: Rehearsed) -> list[str]:
    """The keys of the workload that have another value now. Only what is decided by them is a difference."""
    before: dict[str, Any] = {}
    for _, _, event in recording.history.events("router"):
        if isinstance(event, ev.PlaybookStarted):
            before = event.workload
    now = found.state.workload
    return sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))


def first_difference(recording: Recording, found: Rehearsed, plan: Plan) -> Divergence | None:
    ours = dict(decisions(recording.history))
    theirs = dict(decisions(History(found.execution_id, found.entries)))
    stuck = bool(found.needs) or ("over",) not in ours
    for subject, decision in ours.items():
        other = theirs.get(subject)
        if other is None and (stuck or decision.what == "task"):
            continue
        if other is None or other.value != decision.value:
            return _divergence(decision, other, found, plan)
    if stuck:
        return None
    extra = next((each for subject, each in theirs.items() if subject not in ours and subject[0] == "scheduled"), None)
    if extra is None:
        return None
    because = because_admission(plan, found, extra.step)
    return Divergence(
        what="path", step=extra.step, run_id=extra.run_id, index=-1, task="", log=NOTHING, new=ENTERS, because=because,
        seq=0, line=_line(plan, extra.step),
    )


def _divergence(decision: Decision, other: Decision | None, found: Rehearsed, plan: Plan) -> Divergence:
    what, log = decision.what, decision.value
    because: list[dict[str, Any]] = []
    if what == "args" and other is None:
        what, log = "path", ENTERS
    if what in ("path", "admission"):
        because = because_admission(plan, found, decision.step)
    elif what == "arcs" and other is not None:
        because = because_arcs(plan, found, decision.run_id)
    elif what == "task" and other is not None:
        because = because_rules(plan, found, decision.run_id, decision.index, decision.task, decision.attempt)
    return Divergence(
        what=what, step=decision.step, run_id=decision.run_id, index=decision.index, task=decision.task, log=log,
        new=NOTHING if other is None else other.value, because=because, seq=decision.seq,
        line=_line(plan, decision.step),
    )


def _line(plan: Plan, step: str) -> int:
    return plan.steps[step].line if step in plan.steps else 0


def decisions(history: History) -> Iterator[tuple[Subject, Decision]]:
    """In log order."""
    counts: dict[Subject, int] = {}
    ends = history.run_ends()
    for seq, record in history.entries:
        lease = record.lease
        if lease is not None:
            held = history.held[Key(lease.run_id, lease.index)]
            if any(entry[0] == seq for entry in held.kept):
                yield from _reported((seq, record), counts)
            continue
        for event in record.events:
            yield from _decided(event, seq, counts, ends)


def _reported(entry: Entry, counts: dict[Subject, int]) -> Iterator[tuple[Subject, Decision]]:
    seq, record = entry
    lease = record.lease
    assert lease is not None
    for event in record.events:
        if not isinstance(event, ev.TaskDone | ev.TaskRetried):
            continue
        do = "retry" if isinstance(event, ev.TaskRetried) else event.do
        value = {"do": do, "to": getattr(event, "to", ""), "set_iter": event.set_iter, "set_ctx": event.set_ctx}
        subject = ("task", lease.run_id, lease.index, event.task, event.attempt)
        decision = Decision(
            what="task", value=value, seq=seq, step=lease.step, run_id=lease.run_id, index=lease.index,
            task=event.task, attempt=event.attempt,
        )
        yield (*subject, _next(counts, subject)), decision


def _decided(
    event: ev.Event, seq: int, counts: dict[Subject, int], ends: dict[str, list[tuple[int, ev.Event]]]
) -> Iterator[tuple[Subject, Decision]]:
    match event:
        case ev.RequestEvaluated(error=error):
            yield ("request",), Decision("request", {"error": error}, seq)
        case ev.StepScheduled(run_id=run_id, step=step, args=args):
            yield ("scheduled", run_id), Decision("args", args, seq, step, run_id)
        case ev.LoopStarted(run_id=run_id, step=step):
            elements = event.items if event.items_ref is None else event.items_ref.checksum
            yield ("loop", run_id), Decision("loop", {"count": event.count, "elements": elements}, seq, step, run_id)
        case ev.CtxPatched(run_id=run_id, patch=patch):
            subject = ("ctx", run_id)
            yield (*subject, _next(counts, subject)), Decision("ctx", patch, seq, _step(run_id), run_id)
        case ev.NextSelected(run_id=run_id, step=step):
            yield from _left(event, seq, ends.get(run_id, []))
        case ev.TokenRejected(step=step):
            value = {"rejected": True, "rule": event.rule, "reason": event.reason}
            yield ("rejected", step, _next(counts, ("rejected", step))), Decision("admission", value, seq, step)
        case ev.TokenAbsorbed(step=step):
            yield ("absorbed", step, _next(counts, ("absorbed", step))), Decision("join", "absorbed", seq, step)
        case ev.TokenJoined(step=step, tokens=tokens):
            joined = f"{len(tokens)} tokens"
            yield ("joined", step, _next(counts, ("joined", step))), Decision("join", joined, seq, step)
        case ev.PlaybookProcessed(status=status, error=error, result=result):
            yield ("over",), Decision("end", {"status": status, "error": error, "result": result}, seq)


def _left(
    event: ev.NextSelected, seq: int, ends: list[tuple[int, ev.Event]]
) -> Iterator[tuple[Subject, Decision]]:
    run_id, step = event.run_id, event.step
    end = ends[0][1] if ends else None
    if end is not None and event.event == BOUNDARY.get(type(end)):
        value = getattr(end, "error", None) or getattr(end, "result", None)
        yield ("result", run_id), Decision("result", value, seq, step, run_id)
    yield ("end", run_id), Decision("arcs", {"event": event.event, "arcs": list(event.arcs)}, seq, step, run_id)


def _next(counts: dict[Subject, int], subject: Subject) -> int:
    counts[subject] = counts.get(subject, 0) + 1
    return counts[subject]


def _step(run_id: str) -> str:
    return run_id.rpartition(":")[0]
