"""A trace as plain values. Times are whole microseconds from the start of the execution, so that parts add up."""

from typing import Any

from shared.answers.trace.critical_path import Trace
from shared.answers.trace.loops import Unit
from shared.answers.trace.spans import Span, by_part, rank
from shared.events.run_index import is_iteration
from shared.events.stamp import stamp

MAX_SLOWEST = 5
MAX_TOP = 5


def told(trace: Trace) -> dict[str, Any]:
    return {
        "execution_id": trace.execution_id,
        "path": trace.path,
        "status": trace.status,
        "finished": trace.status != "running",
        "started": stamp(trace.start / 1e6),
        "ended": stamp(trace.end / 1e6),
        "wall_us": trace.end - trace.start,
        "parts_us": by_part(trace.critical),
        "work_us": trace.work(),
        "top": _top(trace.critical),
        "critical_path": [_span(trace, span) for span in trace.critical],
        "runs": [_run(trace, run) for run in trace.runs],
    }


def _span(trace: Trace, span: Span) -> dict[str, Any]:
    return {
        "part": span.part,
        "run_id": span.run_id or None,
        "index": span.index if is_iteration(span.index) else None,
        "start_us": span.start - trace.start,
        "end_us": span.end - trace.start,
        "about": span.about,
    }


def _top(spans: list[Span]) -> list[dict[str, Any]]:
    """What took most of the critical path, by step and part."""
    found: dict[tuple[str, str], int] = {}
    for span in spans:
        place = (span.run_id.rpartition(":")[0], span.part)
        found[place] = found.get(place, 0) + span.end - span.start
    most = sorted(found.items(), key=lambda entry: -entry[1])[:MAX_TOP]
    return [{"step": step or None, "part": part, "took_us": took} for (step, part), took in most]


def _run(trace: Trace, run: Unit) -> dict[str, Any]:
    return {
        **_unit(trace, run),
        "run_id": run.key.run_id,
        "step": run.step,
        "cause": run.cause or None,
        "loop": _loop(run) if run.iterations else None,
        "iterations": [{"index": each.key.index, **_unit(trace, each)} for each in run.iterations],
    }


def _unit(trace: Trace, unit: Unit) -> dict[str, Any]:
    return {
        "status": unit.status,
        "start_us": unit.start - trace.start,
        "scheduled_us": unit.scheduled - trace.start,
        "end_us": unit.end - trace.start,
        "attempts": unit.attempts,
        "leases": unit.leases,
        "parts_us": by_part(unit.spans),
        "spans": [_span(trace, span) for span in unit.spans],
    }


def _loop(run: Unit) -> dict[str, Any]:
    took = {each.key.index: each.end - each.scheduled for each in run.iterations}
    times = list(took.values())
    slowest = sorted(took, key=lambda index: (-took[index], index))[:MAX_SLOWEST]
    return {
        "iterations": len(times),
        "p50_us": rank(times, 0.5),
        "p95_us": rank(times, 0.95),
        "max_us": max(times),
        "slowest": [{"index": index, "took_us": took[index]} for index in slowest],
    }
