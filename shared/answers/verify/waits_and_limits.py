"""Waits: each is one that its task has, is ended once, after it began, and a child's end is what its task answers
with."""

from collections.abc import Iterable

from shared.answers.history.history import History, Key, PlanOf, Violation
from shared.dsl.model.plan import Task
from shared.events import model as ev


def check_waits(history: History) -> Iterable[Violation]:
    begun: dict[tuple[Key, str], int] = {}
    for key, seq, waiting in _reports(history):
        begun.setdefault((key, waiting.wait), seq)
    ended: set[tuple[Key, str]] = set()
    for seq, record, event in history.events("scheduler"):
        if not isinstance(event, ev.TaskResumed):
            continue
        at = (Key(event.run_id, event.index), event.wait)
        if at in ended:
            yield Violation("wait", f"the wait {event.wait} of {at[0]} is over twice", seq)
        ended.add(at)
        if at not in begun or begun[at] > record.as_of:
            yield Violation("wait", f"the wait {event.wait} of {at[0]} is over, but never began", seq)


def check_asked(history: History, plan_of: PlanOf) -> Iterable[Violation]:
    """Said again, and not asked of the scheduler: what a task may wait for follows from its kind and its keys."""
    for key, seq, waiting in _reports(history):
        scheduled = history.scheduled.get(key.run_id)
        step = plan_of(scheduled[1].digest).steps.get(scheduled[1].step) if scheduled and scheduled[1].digest else None
        if step is None:
            continue  # `pipeline` tells
        tasks = [task for task in step.tasks if task.name == waiting.task]
        wrong = _not_of(tasks[0], waiting) if tasks else "its step has no such task"
        if wrong:
            yield Violation("wait", f"{key}: task {waiting.task} waits as the playbook does not say: {wrong}", seq)


def _not_of(task: Task, waiting: ev.TaskWaiting) -> str:
    if waiting.pause:
        return "" if any(rule.then.do == "retry" for rule in task.rules or ()) else "it is not tried again"
    child = waiting.child
    if task.kind != ("signal" if waiting.signal else "wait" if child is None else "playbook"):
        return f"it is of kind {task.kind}"
    said = {"signal": waiting.signal} if child is None else {
        "path": child.path, "version": child.version, "return_step": child.returns}
    for name, value in said.items() if task.kind != "wait" else ():
        planned = task.config.get(name)
        if "{" not in str(planned) and value != ("" if planned is None else str(planned)):
            return f"{name} is {planned!r}, and not {value!r:.80}"
    mode = task.config.get("mode")
    if child is not None and mode in (None, "sync", "detached") and child.detached != (mode == "detached"):
        return f"mode is {mode or 'sync'}"
    return ""


def _reports(history: History) -> Iterable[tuple[Key, int, ev.TaskWaiting]]:
    """Also those of workers that had lost the run: the scheduler need not know that they had."""
    for seq, record, event in history.events("waiting"):
        if isinstance(event, ev.TaskWaiting) and record.lease is not None:
            yield Key(record.lease.run_id, record.lease.index), seq, event
