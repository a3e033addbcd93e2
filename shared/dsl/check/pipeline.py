"""Checks of a step's pipeline: jumps that never end, and branches that run into each other."""

from collections.abc import Mapping

from shared.dsl.check.plan_paths import Sites, listed
from shared.dsl.model.plan import Plan, Rule, Step, Task
from shared.dsl.model.tool_spec import ToolSpec
from shared.dsl.read.reader import Reader, short
from shared.dsl.templates.conditions import truth

_FAILS = -1  # ends only because a call fails
_ENDS = -2   # ends by a rule, or after the last task


def check_pipelines(reader: Reader, plan: Plan, sites: Sites, kinds: Mapping[str, ToolSpec]) -> None:
    for step in plan.steps.values():
        if len(step.tasks) > 1 or any(task.rules for task in step.tasks):
            timed = bool(step.timeout_s or step.deadline_s or plan.timeout_s)
            _endless(reader, step, sites, _edges(step, kinds), timed=timed)
            _fall_through(reader, step, sites)


def possible(rules: tuple[Rule, ...]) -> tuple[list[Rule], bool]:
    """The rules an outcome can come to, and whether one can pass them all. A retry that is used up is
    passed over; when nothing follows, the step fails."""
    found: list[Rule] = []
    passes = True
    for rule in rules:
        decided = True if rule.when is None else truth(rule.when)
        if decided is not False:
            found.append(rule)
        if decided and rule.then.do != "retry":
            return found, False
        passes = passes and not decided
    return found, passes


def _edges(step: Step, kinds: Mapping[str, ToolSpec]) -> dict[int, set[int]]:
    """Where the pipeline can continue after each task."""
    labels = {each.name: position for position, each in enumerate(step.tasks)}
    edges: dict[int, set[int]] = {}
    for index, task in enumerate(step.tasks):
        onward = index + 1 if index + 1 < len(step.tasks) else _ENDS
        if task.rules is None:
            edges[index] = {onward} if kinds[task.kind].pure else {onward, _FAILS}
            continue
        found, passes = possible(task.rules)
        deeds = {"continue": onward, "retry": _FAILS}
        edges[index] = {labels[rule.then.to] if rule.then.do == "jump" else deeds.get(rule.then.do, _ENDS)
                        for rule in found} | ({onward} if passes else set())
    return edges


def _endless(reader: Reader, step: Step, sites: Sites, edges: Mapping[int, set[int]], *, timed: bool) -> None:
    """`timed`: running out of time is a failure too, and ends any jumps."""
    back: dict[int, set[int]] = {}
    for index, targets in edges.items():
        for target in targets:
            back.setdefault(target, set()).add(index)
    stuck = sorted(index for index in _reached(edges, 0) - _reached(back, _ENDS) if index >= 0)
    if not stuck:
        return
    beyond = _reached(edges, stuck[0])
    names = listed([step.tasks[each].name for each in sorted(beyond) if each >= 0])
    at, fix = sites.task(step.name, stuck[0]), "add a rule with then: {do: break} for when it is enough"
    if timed or _FAILS in beyond:
        reader.value(at, "DSL914", f"only a failure ends the jumps through {names}", fix, warning=True)
    else:
        reader.value(at, "DSL505", f"nothing ends the jumps through {names}", fix)


def _reached(edges: Mapping[int, set[int]], start: int) -> set[int]:
    seen, open_ = {start}, [start]
    while open_:
        for target in edges.get(open_.pop(), ()):
            if target not in seen:
                seen.add(target)
                open_.append(target)
    return seen


def _fall_through(reader: Reader, step: Step, sites: Sites) -> None:
    """A branch that a router task chooses, and that runs on into the next branch of the same router."""
    labels = {task.name: index for index, task in enumerate(step.tasks)}
    told: set[int] = set()
    for router, task in enumerate(step.tasks):
        targets = {labels[rule.then.to] for rule in task.rules or () if rule.then.do == "jump"}
        for target in sorted(targets):
            branch = target - 1
            chosen = branch in targets or (branch == router + 1 and any(each > target for each in targets))
            if branch <= router or not chosen or target in told or not _runs_on(step.tasks[branch]):
                continue
            told.add(target)
            name, after = short(step.tasks[branch].name), short(step.tasks[target].name)
            reader.value(sites.task(step.name, branch), "DSL906",
                         f"{name} runs on into {after}, another branch of {short(task.name)}",
                         "end it with a rule that jumps or breaks", warning=True)


def _runs_on(task: Task) -> bool:
    if task.rules is None:
        return True
    found, passes = possible(task.rules)
    deeds = {rule.then.do for rule in found}
    return (passes or "continue" in deeds) and not deeds & {"jump", "break"}
