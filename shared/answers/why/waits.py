"""What runs wait for without a worker: times, signals, children, and the next attempt."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from shared.answers.history.failures import evidence
from shared.answers.rehearsal.conditions import short
from shared.answers.why.facts import Reason, World
from shared.answers.why.remedies import GOES_ON, remedy
from shared.answers.why.view import Hold, View
from shared.engine.scheduling.signals import FULL
from shared.engine.scheduling.waits import Wait
from shared.events.stamp import seconds, stamp

MAX_LISTED = 20


def waits(view: View, world: World) -> Iterator[Reason]:
    for wait in view.schedule.waits.values():
        if not wait.over:
            hold = view.holds.get((wait.run_id, wait.index))
            found = _wait(view, world, wait, hold)
            held = "; paused as it is, it does not go on before someone resumes it" if view.state.paused else ""
            step = hold.step if hold is not None else wait.run_id.rpartition(":")[0]
            yield replace(found, step=step, run_id=wait.run_id, index=wait.index, task=wait.event.task,
                          attempt=found.attempt or wait.event.attempt, text=found.text + held,
                          since=found.since or (hold.last if hold is not None else ""))


def _wait(view: View, world: World, wait: Wait, hold: Hold | None) -> Reason:
    event = wait.event
    if event.pause and hold is not None and hold.retried is not None:
        return backoff(view, hold, seconds(event.until), {"wait": event.wait})
    if event.signal:
        return _signal(view, wait)
    if event.child is not None:
        return _child(world, wait)
    return Reason("wait.time", "blocked", f"task {event.task} waits for a time", values={"wait": event.wait},
                  until=event.until, remedy=GOES_ON)


def _signal(view: View, wait: Wait) -> Reason:
    event = wait.event
    refused = [found.error for found in view.refused_signals if found.name == event.signal]
    unfit = [error for error in refused if error != FULL]
    kept = Counter(signal.name for signal in view.schedule.signals.values())
    left = kept.pop(event.signal, 0)
    others = sorted(kept)
    asked = f" whose payload fits {short(event.schema)}" if event.schema else ""
    text = f"task {event.task} waits for the signal {event.signal!r}{asked}"
    if unfit:
        text += f"; {len(unfit)} came and did not fit its schema: {unfit[-1]}"
    if len(refused) > len(unfit):
        text += f"; {len(refused) - len(unfit)} came when too many were kept"
    if left:
        text += f"; {left} are there and not looked at yet"
    if others:
        text += f"; signals of other names lie there: {', '.join(others[:5])}"
    helps = remedy("signal_payload" if event.schema else "signal", execution_id=view.execution_id, signal=event.signal)
    return Reason(
        "wait.signal", "blocked", text,
        values={"signal": event.signal, "schema": event.schema, "refused": refused[-MAX_LISTED:], "others": others},
        until=event.until, remedy=helps,
    )


def _child(world: World, wait: Wait) -> Reason:
    child = wait.event.child
    assert child is not None
    answer = world.others.get(child.execution_id)
    if wait.answer is not None:
        text = f"its child {child.execution_id} is over ({wait.answer.status}); the scheduler sends it on"
    else:
        text = f"task {wait.event.task} waits for playbook {child.path}, execution {child.execution_id}"
    is_asked = answer is None and wait.answer is None
    return Reason(
        "wait.child", "blocked", text, values={"child": child.execution_id, "path": child.path},
        until=wait.event.until, remedy=remedy("child_asked" if is_asked else "child_ends", child=child.execution_id),
        because=(answer,) if answer is not None and wait.answer is None else (),
    )


def children(view: View) -> list[str]:
    """The executions it waits for."""
    return [wait.event.child.execution_id for wait in view.schedule.waits.values()
            if not wait.over and wait.answer is None and wait.event.child is not None]


def backoff(view: View, hold: Hold, until: float, more: dict[str, Any]) -> Reason:
    retried = hold.retried
    assert retried is not None
    most = view.attempts(hold.step, retried.task)
    error = retried.outcome.error or {}
    said = f": {error.get('kind')}: {error.get('message')}" if error else ""
    return Reason(
        "backoff", "blocked", f"task {retried.task} failed and is tried again: attempt {retried.attempt + 1} of {most}"
        f" comes after a pause; the last error{said or ' is not recorded'}",
        step=hold.step, task=retried.task, attempt=retried.attempt + 1,
        values={"attempts": most, "delay_s": round(retried.delay, 3), "error": error,
                "failure": evidence(retried.outcome), **more},
        since=hold.task_since, until=stamp(until), remedy=GOES_ON,
    )
