"""The playbooks a test is about, and the names of steps and tasks it may use."""

from collections.abc import Callable
from typing import Any

from shared.dsl.check.plan_paths import listed
from shared.dsl.model.plan import Plan, Task
from shared.dsl.read.reader import Reader, short
from shared.dsl.source.nodes import Path

PlanOf = Callable[[str], Plan | str]
BY_ITSELF = ("noop", "wait", "signal", "playbook")  # kinds that the engine answers without a tool


class Books:
    """The playbook under test first. One that cannot be used is reported once, and its names are not checked."""

    def __init__(self, plan_of: PlanOf) -> None:
        self._plan_of = plan_of
        self._found: list[Plan | None] = []

    @property
    def plans(self) -> tuple[Plan, ...]:
        return tuple(plan for plan in self._found if plan is not None)

    def add(self, reader: Reader, file: str, path: Path) -> None:
        found = self._plan_of(file)
        if isinstance(found, str):
            reader.value(path, "DSL413", f"playbook {short(file)} cannot be used: {found}",
                         "name a playbook that `noetlctl validate` takes, from the folder of the test")
        elif any(plan is not None and plan.path == found.path for plan in self._found):
            reader.value(path, "DSL401", f"playbook {short(file)} has the path {short(found.path)}, as another has",
                         "name it once")
        self._found.append(None if isinstance(found, str) else found)

    def main(self) -> Plan | None:
        return self._found[0] if self._found else None

    def of(self, reader: Reader, name: Any, path: Path) -> Plan | None:
        """The plan that a mock's `playbook` means: its path."""
        plan = next((plan for plan in self.plans if plan.path == name), None)
        if plan is None and None not in self._found:
            known = [plan.path for plan in self.plans]
            near = reader.nearest(name, known)
            reader.value(path, "DSL413", f"the test has no playbook {short(name)}",
                         f"did you mean {near}?" if near else f"add its file to with; known here: {listed(known)}")
        return plan


def is_step(reader: Reader, plan: Plan | None, name: Any, path: Path, *, key: bool = False) -> bool:
    """Whether the playbook has the step; reported if it has not. `key`: the name is a key of a mapping."""
    if plan is None:
        return False
    if isinstance(name, str) and name in plan.steps:
        return True
    near = reader.nearest(name, plan.steps)
    fix = f"did you mean {near}?" if near else f"steps: {listed(list(plan.steps))}"
    (reader.key if key else reader.value)(path, "DSL411", f"playbook {short(plan.path)} has no step {short(name)}", fix)
    return False


def task_of(
    reader: Reader, plan: Plan, step: str, name: Any, path: Path, *, key: bool = False
) -> Task | None:
    """The task of that name, or what claims the rows of its loop; without a name the only one that does not answer
    by itself, or the only one."""
    tasks, loop = plan.steps[step].tasks, plan.steps[step].loop
    named = tasks if loop is None or loop.cursor is None else (*tasks, loop.cursor.claim)
    labels = [task.name for task in named]
    if name is not None:
        found = next((task for task in named if task.name == name), None)
        if found is None:
            near = reader.nearest(name, labels)
            fix = f"did you mean {near}?" if near else f"tasks: {listed(labels) or 'none'}"
            (reader.key if key else reader.value)(path, "DSL412", f"step {short(step)} has no task {short(name)}", fix)
        return found
    asking = [task for task in tasks if task.kind not in BY_ITSELF] or list(tasks)
    if len(asking) == 1:
        return asking[0]
    says = f"step {short(step)} has {len(asking)} tasks that may be meant" if asking else \
        f"step {short(step)} has no task"
    reader.key(path, "DSL412", says,
               f"add task: one of {listed([task.name for task in asking])}" if asking else "name a step with a tool")
    return None
