"""A comparison of two executions as plain values."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from shared.answers.diff.changes import Change, changes, plain
from shared.answers.diff.compare import Divergence, Turn, divergence, first_value, turns, value_changes
from shared.answers.history.history import Entry, History
from shared.answers.trace import critical_path
from shared.answers.trace.loops import Unit
from shared.answers.verify.proof import fold_ctx
from shared.dsl.model.edition import source_of
from shared.events import model as ev
from shared.events.failure import kind_of
from shared.events.run_index import is_iteration
from shared.events.stamp import stamp


class Side(Struct):
    """One of the two, as far as its log goes."""

    history: History
    trace: critical_path.Trace
    requested: ev.ExecutionRequested | None = None
    digest: str = ""
    workload: dict[str, Any] = {}
    processed: ev.PlaybookProcessed | None = None


def side(execution_id: str, entries: list[Entry], now: float) -> Side:
    history = History(execution_id, entries)
    found = Side(history, critical_path.trace(execution_id, entries, now))
    for _, _, event in history.events("router"):
        match event:
            case ev.ExecutionRequested():
                found.requested = event
            case ev.RequestEvaluated(digest=digest):
                found.digest = source_of(digest)
            case ev.PlaybookStarted(workload=workload):
                found.workload = workload
            case ev.PlaybookProcessed():
                found.processed = event
    return found


def compare(a: Side, b: Side) -> dict[str, Any]:
    ours, theirs = turns(a.history), turns(b.history)
    apart = divergence(ours, theirs)
    until = apart.a.seq if apart is not None and apart.a is not None else None
    value = first_value(ours, theirs, until)
    ctx = list(changes(plain(fold_ctx(a.history)[0]), plain(fold_ctx(b.history)[0])))
    result = list(changes(_outcome(a), _outcome(b)))
    return {
        "a": _about(a),
        "b": _about(b),
        "same": apart is None and not ctx and not result,
        "same_path": apart is None,
        "same_playbook": a.digest == b.digest,
        "payload": _list(changes(*(plain(each.requested.payload) if each.requested else {} for each in (a, b)))),
        "workload": _list(changes(plain(a.workload), plain(b.workload))),
        "divergence": _divergence(apart),
        "first_value": _first_value(value),
        "runs": _runs(a, b),
        "ctx": _list(ctx),
        "result": _list(result),
    }


def _outcome(each: Side) -> dict[str, Any]:
    processed = each.processed
    if processed is None:
        return {"status": "running", "result": None, "error": None}
    result = processed.result
    value = None
    if result is not None:
        value = plain(msgspec.to_builtins(result.ref)) if result.ref is not None else plain(result.value)
    return {"status": processed.status, "result": value, "error": kind_of(processed.error)}


def _about(each: Side) -> dict[str, Any]:
    requested = each.requested
    return {
        "execution_id": each.history.execution_id,
        "path": requested.path if requested is not None else "",
        "version": requested.version if requested is not None else "",
        "digest": each.digest,
        "status": each.trace.status,
        "started": stamp(each.trace.start / 1e6),
        "wall_us": each.trace.end - each.trace.start,
    }


def _list(found: Any) -> list[dict[str, Any]]:
    return [msgspec.structs.asdict(change) for change in found]


def _divergence(found: Divergence | None) -> dict[str, Any] | None:
    if found is None:
        return None
    known = found.a or found.b
    assert known is not None
    return {
        "what": _what(known), "run_id": known.run_id or None,
        "index": known.index if is_iteration(known.index) else None,
        "a": _turn(found.a), "b": _turn(found.b),
    }


def _what(turn: Turn) -> str:
    return f"{turn.name} ({turn.way['task']})" if "task" in turn.way else turn.name


def _turn(turn: Turn | None) -> dict[str, Any] | None:
    return None if turn is None else {"seq": turn.seq, **turn.way, **turn.data}


def _first_value(found: Divergence | None) -> dict[str, Any] | None:
    """The first value that differs while both go the same way."""
    if found is None or found.a is None or found.b is None:
        return None
    changed: Sequence[Change] = value_changes(found)
    return {"what": _what(found.a), "seq_a": found.a.seq, "seq_b": found.b.seq, "changes": _list(changed)}


def _runs(a: Side, b: Side) -> list[dict[str, Any]]:
    ours = {unit.key.run_id: unit for unit in a.trace.runs}
    theirs = {unit.key.run_id: unit for unit in b.trace.runs}
    return [
        _run(run_id, ours.get(run_id), theirs.get(run_id))
        for run_id in [*ours, *(run_id for run_id in theirs if run_id not in ours)]
    ]


def _run(run_id: str, a: Unit | None, b: Unit | None) -> dict[str, Any]:
    took_a, took_b = (None if unit is None else unit.end - unit.scheduled for unit in (a, b))
    return {
        "run_id": run_id,
        "step": run_id.rpartition(":")[0],
        "in": "both" if a is not None and b is not None else "a" if b is None else "b",
        "a": _unit(a),
        "b": _unit(b),
        "factor": round(took_b / took_a, 3) if took_a and took_b is not None else None,
    }


def _unit(unit: Unit | None) -> dict[str, Any] | None:
    if unit is None:
        return None
    parts = [unit, *unit.iterations]
    return {
        "status": unit.status,
        "took_us": unit.end - unit.scheduled,
        "attempts": sum(each.attempts for each in parts),
        "leases": sum(each.leases for each in parts),
        "iterations": len(unit.iterations),
        "failed": sum(each.status == "failed" for each in unit.iterations),
    }
