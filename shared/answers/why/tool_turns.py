"""Why a run has not begun although there are free slots: its tool makes only so many calls at a time, and all of them
are under way."""

from collections.abc import Sequence
from typing import Any

from shared.answers.why.facts import Pool, Reason, Worker
from shared.answers.why.remedies import Remedy, remedy
from shared.answers.why.view import View
from shared.events.beat import Busy
from shared.events.command import Command
from shared.events.run_index import in_brackets
from shared.events.stamp import stamp

MAX_SAID = 4  # calls named in the sentence; the values have all that workers tell


def no_turn(view: View, command: Command, pool: Pool, workers: Sequence[Worker], more: Remedy) -> Reason | None:
    """A reason if all of these workers make as many calls as they can of a kind that the step needs. `more` is what
    helps besides."""
    step, at = view.step(command.step), (view.execution_id, command.run_id, command.index)
    for kind in dict.fromkeys(task.kind for task in step.tasks) if step is not None else ():
        full = [(worker, busy) for worker in workers for busy in worker.busy if busy.kind == kind and busy.is_full]
        calls = [(worker, call) for worker, busy in full for call in busy.calls]
        if not full or len(full) < len(workers) or any(
                (call.execution_id, call.run_id, call.index) == at for _, call in calls):
            continue
        told = [{"worker": worker.name, "execution_id": call.execution_id, "run_id": call.run_id, "index": call.index,
                 "step": call.step, "task": call.task, "since": stamp(call.since)} for worker, call in calls]
        values: dict[str, Any] = {
            "pool": pool.name, "kind": kind, "workers": {worker.name: _counts(busy) for worker, busy in full},
            "calls": told,
        }
        each = "; ".join(f"{worker.name} has all its {busy.size} {kind} processes busy" for worker, busy in full)
        return Reason(
            "tool.busy", "blocked", f"it waits for a turn at kind {kind}: {each}, with {_named(told)}", values=values,
            remedy=remedy("calls_end", more, kind=kind),
        )
    return None


def _counts(busy: Busy) -> dict[str, int]:
    return {"size": busy.size, "taken": busy.taken, "waiting": busy.waiting}


def _named(told: list[dict[str, Any]]) -> str:
    said = [f"execution {call['execution_id']} {call['run_id']}{in_brackets(call['index'])} task {call['task']} since "
            f"{call['since']}" for call in told[:MAX_SAID]]
    more = f" and {len(told) - MAX_SAID} more" if len(told) > MAX_SAID else ""
    return (", ".join(said) or "calls") + more
