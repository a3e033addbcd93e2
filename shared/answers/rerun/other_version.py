"""Whether an execution can continue with another version of its playbook, and with which workload.

1. What is *kept* is what was done: steps that were entered and do not run again, with their results, their writes to
   ctx and the arcs they chose. All of that followed from how they are written, so each of them has to be written the
   same in the other version, arcs and admission included. Then the way to where it continues is the same too.
   So has the admission of a step that has refused a token: nobody asks it again.
2. What *runs again* may be changed in any way: that is what was mended. It has to be there under its name; and of a
   loop that continues with the iterations that did not succeed, the elements have to be the same.
3. A value of the workload stays as it was, unless the other version writes it otherwise and the request did not give
   it. No kept step may have read one that changes, and no loop that continues: neither for its elements, which are
   those it had, nor in the iterations that are done.
4. Lines and descriptions do not count, nor do timeouts, pools and limits.
"""

from collections.abc import Collection, Mapping
from typing import Any

from msgspec.structs import replace

from shared.answers.rerun.rerun import Kept
from shared.dsl.model.plan import EVERYTHING, Loop, Needs, Plan, Step
from shared.dsl.templates.needs import names_used, together
from shared.events import model as ev


def refusal(
    old: Plan, new: Plan, kept: Kept, restored: ev.PlaybookRestored, given: Mapping[str, Any]
) -> str:
    """What the other version has or lacks, so that it cannot; empty when it can. `given` is the payload of the request
    that the work began with."""
    changed = _changed(old, new, given)
    for token in restored.tokens:
        if token.step not in new.steps:
            return f"has no step {token.step!r}, where it would continue"
        if token.loop is not None and not _same_elements(old.steps[token.step].loop, new.steps[token.step].loop):
            return f"has another loop in step {token.step!r}, of which {token.loop.done} iterations are done"
        if token.loop is not None and (read := sorted(_among(old.steps[token.step].needs, changed))):
            of = f"step {token.step!r}, of which {token.loop.done} iterations are done,"
            return f"has another workload.{read[0]}, and {of} has read it"
    for name in sorted(kept.refused & old.steps.keys() & new.steps.keys()):
        one, other = old.steps[name], new.steps[name]
        if _plain(one).admit != _plain(other).admit or one.join != other.join:
            return f"has another admission of step {name!r}, which has refused a token"
        if read := sorted(_among(names_used([rule.when for rule in other.admit]), changed)):
            return f"has another workload.{read[0]}, and step {name!r}, which has refused a token, has read it"
    for name in sorted(kept.entered):
        if name not in new.steps:
            return f"has no step {name!r}, which is done"
        if name in old.steps and (parts := _difference(old.steps[name], new.steps[name])):
            return f"has another step {name!r}, which is done: {parts}"
        if read := sorted(_among(_needs(new.steps[name]), changed)):
            return f"has another workload.{read[0]}, and step {name!r}, which is done, has read it"
    return ""


def workload(old: Plan, new: Plan, known: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What the new execution is given: the workload that the earlier one had, but for what is written otherwise now; of
    that, what the request gave."""
    changed = _changed(old, new, given)
    return {key: given[key] if key in changed else value for key, value in known.items()
            if key not in changed or key in given}


def _changed(old: Plan, new: Plan, given: Mapping[str, Any]) -> frozenset[str]:
    """Keys of the workload that are written otherwise, or are made of such, and that the request has not given as a
    whole: a mapping is merged."""
    free = {key for key in old.workload.keys() | new.workload.keys()
            if key not in given or (isinstance(given[key], dict) and isinstance(new.workload.get(key), dict))}
    found = {key for key in free if old.workload.get(key, _NONE) != new.workload.get(key, _NONE)}
    while more := {key for key in (free & new.workload.keys()) - found if _among(names_used(new.workload[key]), found)}:
        found |= more
    return frozenset(found)


_NONE = object()


def _needs(step: Step) -> Needs:
    """What a step reads: its own `needs` are those of its tasks and elements."""
    more = [[(arc.when, arc.args) for arc in step.arcs], [rule.when for rule in step.admit]]
    return together(step.needs, names_used(more))


def _among(needs: Needs, keys: Collection[str]) -> frozenset[str]:
    """By name, as `workload.key`, or all of it."""
    if EVERYTHING in needs.workload:
        return frozenset(keys)
    return (needs.names | needs.workload) & frozenset(keys)


def _difference(one: Step, other: Step) -> str:
    """The parts of a step that are written otherwise."""
    a, b = _plain(one), _plain(other)
    found = {_PARTS[name]: None for name in _PARTS if getattr(a, name) != getattr(b, name)}
    return ", ".join(found)


# What decides on what a run does, and what follows it. How long it may take, where it runs and how often it is tried
# when workers are lost does not.
_PARTS = {
    "tasks": "its tasks", "arcs": "its arcs", "mode": "its arcs", "case": "its arcs", "admit": "its admission",
    "join": "its admission", "loop": "its loop", "failure": "its failure policy", "tolerate": "its failure policy",
    "compensate": "its compensation",
}


def _plain(step: Step) -> Step:
    """Without what only people read, and how long a call may take."""
    tasks = (replace(task, title="", spec={key: value for key, value in task.spec.items() if key != "timeout"})
             for task in step.tasks)
    return replace(step, tasks=tuple(tasks), admit=tuple(replace(rule, line=0) for rule in step.admit))


def _same_elements(one: Loop | None, other: Loop | None) -> bool:
    """How many run at a time, and when it stops, may change."""
    if one is None or other is None:
        return one is other
    return (one.levels, one.cursor, one.local) == (other.levels, other.cursor, other.local)
