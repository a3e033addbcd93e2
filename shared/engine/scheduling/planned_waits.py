"""Which waits the plan has. A wait makes the scheduler act for a worker, beyond the worker's own pool: a playbook is
started, a signal is used up. So what a worker writes of a wait is held to the plan.

1. A task waits for what its kind waits for (`WAITS`). Any task may pause before a further attempt, if a rule of it
   retries. Nothing else waits.
2. What the plan says of a playbook or a signal as plain text, the wait says too: the path, the version, the step whose
   result is wanted, the mode; the name of the signal.
3. Of a template only the worker knows the value. What stands before and behind it is plain: `jobs/{{ name }}` starts
   nothing but what begins with `jobs/`.
4. The rest is the worker's to say, as a result is: payloads, the schema of a signal, times, how often it comes to wait.
5. A run of which a wait is reported that the plan does not have fails at once, and no child of that wait is requested.
   It is not just passed over: the report has taken the run from its holder, and perhaps the place of a true wait. The
   failure follows from the plan and the record alone, so everyone who decides again comes to the same; folds and other
   readers, which have no plan, see a wait, and then a run that failed.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from shared.dsl.model.plan import Plan, Step, Task
from shared.dsl.templates.evaluate import is_template
from shared.events import model as ev

if TYPE_CHECKING:
    from shared.engine.scheduling.state import Schedule

Plans = Callable[[str], Plan]
Asked = tuple[str, bool, str, tuple[str, str, str, bool] | None]
PLAYBOOK, SIGNAL, TIME = "a playbook", "a signal", "a time"
WAITS = {"playbook": PLAYBOOK, "signal": SIGNAL, "wait": TIME}  # every kind that waits (`ToolSpec.waits`), and for what
MAX_SHOWN = 80  # characters of a name that a reason repeats


def step_of(plans: Plans, state: "Schedule", run_id: str) -> Step | None:
    """The step of a run that is not over."""
    found = state.runs.get(run_id) or state.loops.get(run_id)
    return None if found is None else plans(found.event.digest).steps[found.event.step]


def asked_for(event: ev.TaskWaiting) -> Asked:
    """All of a wait that is held to the plan."""
    child = event.child
    if child is None:
        return event.task, event.pause, event.signal, None
    return event.task, event.pause, event.signal, (child.path, child.version, child.returns, child.detached)


def refusal(step: Step, event: ev.TaskWaiting) -> str:
    """Why the step has no such wait; empty when it has."""
    task = next((each for each in step.tasks if each.name == event.task), None)
    if task is None:
        return f"step {step.name!r} has no task {_short(event.task)}"
    if event.pause:
        retries = task.rules is not None and any(rule.then.do == "retry" for rule in task.rules)
        return "" if retries else f"{task} has no further attempt to pause before"
    wanted = PLAYBOOK if event.child is not None else SIGNAL if event.signal else TIME
    if WAITS.get(task.kind) != wanted:
        return f"{task} is of kind {task.kind}, and does not wait for {wanted}"
    if event.child is not None:
        return _other_child(task, event.child)
    return _other(task, "signal", event.signal) if event.signal else ""


def _other_child(task: Task, child: ev.Child) -> str:
    for key, value in (("path", child.path), ("version", child.version), ("return_step", child.returns)):
        if wrong := _other(task, key, value):
            return wrong
    mode = str(task.config.get("mode") or "sync")
    if is_template(mode) or (mode == "detached") == child.detached:
        return ""
    return f"{task} has mode {_short(mode)}"


def _other(task: Task, key: str, value: str) -> str:
    """Why the value is not what the plan says under the key."""
    planned = task.config.get(key)
    text = "" if planned is None else str(planned)
    fits = _could_be(text, value) if is_template(text) else text == value
    return "" if fits else f"{task} has {key} {_short(text)}, not {_short(value)}"


def _could_be(template: str, value: str) -> bool:
    """By its beginning and its end. White space beside a tag may be trimmed."""
    before, behind, value = template.partition("{")[0].strip(), template.rpartition("}")[2].strip(), value.strip()
    return len(value) >= len(before) + len(behind) and value.startswith(before) and value.endswith(behind)


def _short(text: str) -> str:
    return repr(text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…")
