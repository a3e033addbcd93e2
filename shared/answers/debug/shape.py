"""A moment of an execution as data of a documented shape. Long values are given whole: whoever prints cuts them."""

from typing import Any

from shared.answers.debug.moment import Moment, RunAt, plain
from shared.answers.history.summary import awaited
from shared.engine.routing.state import Run
from shared.engine.scheduling.state import Loop
from shared.engine.scheduling.waits import Wait
from shared.engine.values.growth import sketched
from shared.events import model as ev
from shared.events.outcome import Result
from shared.events.record import envelopes, event_type


def shape(moment: Moment) -> dict[str, Any]:
    state = moment.state
    at = {(each.key.run_id, each.key.index): each for each in moment.runs_at()}
    plan = moment.plan
    return {
        "execution_id": moment.execution_id,
        "path": plan.path if plan is not None else "",
        "position": moment.position,
        "records": moment.total,
        "seq": moment.seq,
        "ts": moment.record.ts,
        "record": record_shape(moment),
        "status": "pending" if state.status == "new" else state.status,
        "paused": state.paused,
        "workload": state.workload,
        "ctx": state.ctx,
        "results": {step: _value(result) for step, result in state.results.items()},
        "result": _value(state.result),
        "error": state.error,
        "tokens": [{"token_id": each.token_id, "step": each.step, "args": each.args} for each in state.tokens.values()],
        "runs": [_run(run, at.get((run.run_id, -1))) for run in state.runs.values()],
        "loops": [_loop(moment, run_id, at) for run_id in moment.schedule.loops],
        "waits": [_wait(wait) for wait in moment.schedule.waits.values() if not wait.over],
        "places": [{"key": want.limit.key, "run_id": want.run_id, "index": want.index, "granted": want.granted}
                   for want in moment.places_wanted()],
        "next": next_shape(moment),
    }


def record_shape(moment: Moment) -> dict[str, Any]:
    record = moment.record
    return {
        "seq": moment.seq, "writer": record.writer, "ts": record.ts, "n": record.n, "as_of": record.as_of,
        "source": record.source, "lease": None if record.lease is None else plain(record.lease),
        "events": [{"event_type": each["event_type"], **plain(each["payload"])} for each in envelopes(record)],
    }


def next_shape(moment: Moment) -> dict[str, Any]:
    return {
        "router": [_event(event) for event in moment.router_next()],
        "scheduler": [_event(event) for event in moment.scheduler_next()],
        "commands": [{"run_id": each.run_id, "index": each.index, "step": each.step, "pool": each.pool}
                     for each in moment.commands()],
        "due": moment.due() or None,
    }


def _event(event: ev.Event) -> dict[str, Any]:
    return {"event_type": event_type(event), **{k: v for k, v in plain(event).items() if k != "event_type"}}


def _value(result: Result | None) -> Any:
    """A stored value stays a reference: what it is, an expression shows."""
    if result is None:
        return None
    if result.ref is not None:
        return {"ref": plain(result.ref)}
    return result.value["results"] if result.shape == "loop" else result.value


def _run(run: Run, at: RunAt | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "run_id": run.run_id, "step": run.step, "state": _state(run, at), "loop": run.loop, "pool": run.pool,
        "args": run.args, "compensates": run.compensates or None,
        "end": None if run.end is None else {"event": run.end.event, "error": run.end.error},
    }
    return {**found, **_progress(at)}


def _state(run: Run, found: RunAt | None) -> str:
    if run.end is not None:
        return "ended"
    if run.loop:
        return "running"
    if found is None or found.lease is None:
        return "scheduled"
    return "waiting" if run.parked or found.progress.waiting else "running"


def _progress(found: RunAt | None) -> dict[str, Any]:
    if found is None or found.lease is None:
        return {"task": None, "attempt": None, "worker": None, "epoch": None, "set_ctx": [], "iter": {}, "tasks": {}}
    at = found.progress
    return {
        "task": at.task if at.state == "running" else None, "attempt": at.attempt if at.state == "running" else None,
        "worker": found.lease.worker, "epoch": list(found.lease.epoch), "set_ctx": list(at.patches),
        "iter": sketched(at.iter), "tasks": {name: _value(result) for name, result in at.results.items()},
    }


def _loop(moment: Moment, run_id: str, at: dict[tuple[str, int], RunAt]) -> dict[str, Any]:
    loop = moment.schedule.loops[run_id]
    started = loop.started
    return {
        "run_id": run_id, "step": loop.event.step, "count": loop.total if started is not None else None,
        "max_in_flight": started.max_in_flight if started is not None else None,
        "parallel": loop.parallel, "next": loop.next, "done": loop.results.size, "failed": loop.failures.size,
        "stopped": loop.stopped, "local": loop.is_local, "cursor": _cursor(loop),
        "iterations": [{"index": index, **_progress(at.get((run_id, index)))} for index in sorted(loop.live)],
    }


def _cursor(loop: Loop) -> dict[str, Any] | None:
    """What was claimed so far; `open`: a worker claims the next rows; `dry`: there were none left."""
    claims = loop.claims
    if claims is None:
        return None
    return {"claimed": claims.claimed, "frames": claims.asked, "open": claims.open, "dry": claims.dry}


def _wait(wait: Wait) -> dict[str, Any]:
    return {
        "run_id": wait.run_id, "index": wait.index, "task": wait.event.task, "wait": wait.event.wait,
        "for": awaited(wait.event), "until": wait.event.until or None,
    }
