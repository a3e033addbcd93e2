"""Two executions side by side: which way each went, where they part, and what differs.

Runs are aligned by step and occurrence (`fetch:2`), iterations by index, tasks by their order in the run. What each
decided is a list of turns with a name of their own. Turns that happen side by side may be in another order in the
other log: that is no difference.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from shared.answers.diff.changes import Change, changes, plain
from shared.answers.history.history import Held, History, Key
from shared.events import model as ev
from shared.events.failure import kind_of
from shared.events.outcome import Result


class Turn(Struct, frozen=True):
    """One decision or fact. `way` is what the path depends on, `data` the values that came with it."""

    name: str
    seq: int
    way: dict[str, Any]
    data: dict[str, Any] = {}
    run_id: str = ""
    index: int = -1


class Divergence(Struct, frozen=True):
    """A turn that the two took differently; `a` or `b` is None where the turn is not."""

    name: str
    a: Turn | None
    b: Turn | None


def turns(history: History) -> dict[str, Turn]:
    """Everything that was decided and reported, by name, in the order of the log."""
    found = [*_routed(history), *_scheduled(history)]
    for key, held in history.held.items():
        found += _reported(key, held)
    found.sort(key=lambda turn: turn.seq)
    return {turn.name: turn for turn in found}


def divergence(a: dict[str, Turn], b: dict[str, Turn]) -> Divergence | None:
    """The first turn of `a` that `b` took otherwise or not at all; else the first that only `b` took."""
    for name, turn in a.items():
        other = b.get(name)
        if other is None or other.way != turn.way:
            return Divergence(name, turn, other)
    extra = next((name for name in b if name not in a), None)
    return None if extra is None else Divergence(extra, None, b[extra])


def first_value(a: dict[str, Turn], b: dict[str, Turn], until: int | None = None) -> Divergence | None:
    """The first turn that both took with other values; of those before `until` in the log of `a`."""
    for name, turn in a.items():
        if until is not None and turn.seq >= until:
            return None
        other = b.get(name)
        if other is not None and other.data != turn.data:
            return Divergence(name, turn, other)
    return None


def value_changes(found: Divergence) -> list[Change]:
    assert found.a is not None
    assert found.b is not None
    return list(changes(found.a.data, found.b.data))


# -- what each writer says ---------------------------------------------------------------


def _routed(history: History) -> Iterator[Turn]:
    ends = history.run_ends()
    denied: dict[str, int] = {}
    for seq, _, event in history.events("router"):
        match event:
            case ev.RequestEvaluated(error=error) if error is not None:
                yield Turn("the request is refused", seq, {"kind": kind_of(error)}, {"error": error})
            case ev.StepScheduled(run_id=run_id, args=args):
                yield Turn(f"run {run_id} is entered", seq, {}, {"args": plain(args)}, run_id)
            case ev.TokenRejected(step=step, rule=rule, reason=reason):
                denied[step] = denied.get(step, 0) + 1
                way = {"rule": rule, "reason": reason}
                yield Turn(f"step {step} is not admitted ({denied[step]})", seq, way)
            case ev.NextSelected(run_id=run_id, event=boundary, arcs=arcs):
                way = {"event": boundary, "arcs": list(arcs)}
                end = ends.get(run_id, [(0, None)])[0][1]
                yield Turn(f"run {run_id} ends", seq, way, _left(end), run_id)
            case ev.StepCancelled(run_id=run_id):
                yield Turn(f"run {run_id} is cancelled", seq, {}, {}, run_id)
            case ev.PlaybookCompensating(status=status, error=error):
                yield Turn("the execution is compensated", seq, {"status": status}, {"error": error})
            case ev.PlaybookProcessed(status=status, result=result, error=error):
                way = {"status": status, "kind": kind_of(error)}
                yield Turn("the execution ends", seq, way, {"result": _result(result), "error": error})


def _scheduled(history: History) -> Iterator[Turn]:
    for seq, _, event in history.events("scheduler"):
        match event:
            case ev.LoopStarted(run_id=run_id, count=count, items=items):
                ref = event.items_ref.checksum if event.items_ref is not None else None
                yield Turn(f"loop {run_id} starts", seq, {"count": count}, {"items": plain(items), "ref": ref}, run_id)
            case ev.LoopStopped(run_id=run_id):
                yield Turn(f"loop {run_id} stops early", seq, {}, {}, run_id)
            case ev.LoopDone(run_id=run_id, count=count, failed=failed):
                yield Turn(f"loop {run_id} is done", seq, {"count": count, "failed": failed}, {}, run_id)


def _reported(key: Key, held: Held) -> Iterator[Turn]:
    ran = 0
    for seq, record in held.kept:
        for event in record.events:
            match event:
                case ev.TaskDone() | ev.TaskRetried():
                    ran += 1
                    yield _task(key, ran, seq, event)
                case ev.IterationDone() | ev.IterationFailed():
                    way = {"event": "done" if isinstance(event, ev.IterationDone) else "failed"}
                    yield Turn(f"iteration {key} ends", seq, way, _left(event), key.run_id, key.index)


def _task(key: Key, ran: int, seq: int, event: ev.TaskDone | ev.TaskRetried) -> Turn:
    outcome = event.outcome
    way: dict[str, Any] = {"task": event.task, "attempt": event.attempt, "status": outcome.status, "do": "retry"}
    if isinstance(event, ev.TaskDone):
        way |= {"do": event.do, "to": event.to}
    result = _result(Result(outcome.result, outcome.shape, outcome.ref))
    data = {"result": result, "error": outcome.error, "set_ctx": plain(event.set_ctx)}
    return Turn(f"{key}: task {ran}", seq, way, data, key.run_id, key.index)


def _left(end: ev.Event | None) -> dict[str, Any]:
    """What the end of a run or iteration leaves."""
    if end is None:
        return {}
    ctx = plain(msgspec.to_builtins(getattr(end, "ctx", ())))
    return {"result": _result(getattr(end, "result", None)), "error": getattr(end, "error", None), "ctx": ctx}


def _result(result: Result | None) -> Any:
    if result is None:
        return None
    return plain(msgspec.to_builtins(result.ref)) if result.ref is not None else plain(result.value)
