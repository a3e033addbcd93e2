"""What a step's policy says about tokens that meet (`admit.join`) and about undoing it (`compensate`), and the
check that compensations are outside the flow of tokens."""

from collections.abc import Mapping
from typing import Any

from shared.dsl.model.plan import Compensate, Step
from shared.dsl.read import rejected_keys
from shared.dsl.read.reader import Reader, kind_of, short
from shared.dsl.read.template_fields import check_templates
from shared.dsl.source.nodes import Path

JOINS = ("all", "each", "any")
MIN_JOIN, MAX_JOIN = 2, 1000


def read_join(reader: Reader, policy: Mapping[str, Any], path: Path) -> Any:
    """`path` is that of the policy."""
    admit = policy.get("admit")
    if not isinstance(admit, dict) or "join" not in admit:
        return "all"
    value, at = admit["join"], (*path, "admit", "join")
    if type(value) is int:
        return reader.whole(value, at, MIN_JOIN, MAX_JOIN)
    if not isinstance(value, str) or value not in JOINS:
        reader.value(at, "DSL204", f"join is {short(value)}",
                     f"write {', '.join(JOINS)}, or a number from {MIN_JOIN} to {MAX_JOIN}")
        return "all"
    return value


def read_compensate(reader: Reader, policy: Mapping[str, Any], path: Path,
                    steps: Mapping[str, Any]) -> Compensate | None:
    """A step's name, or `{step, args}`. `steps` are the names there are."""
    if "compensate" not in policy:
        return None
    value, at = policy["compensate"], (*path, "compensate")
    if not isinstance(value, str | dict):
        message = f"compensate must be the name of a step, not {kind_of(value)}"
        reader.value(at, "DSL203", message, rejected_keys.COMPENSATE_FIX)
        return None
    if isinstance(value, str):
        return Compensate(value) if _known(reader, value, at, steps) else None
    reader.keys(value, at, ("step", "args"), rejected_keys.COMPENSATE, "compensate")
    if "step" not in value:
        if not set(value) & set(rejected_keys.COMPENSATE):
            reader.required(value, "step", at, "compensate", rejected_keys.COMPENSATE_FIX)
        return None
    args: dict[str, Any] | None = None
    if "args" in value:
        args = reader.mapping(value["args"], (*at, "args"), "write args: {name: value}")
        check_templates(reader, args, (*at, "args"), secrets=False)
    return Compensate(value["step"], args) if _known(reader, value["step"], (*at, "step"), steps) else None


def _known(reader: Reader, name: Any, path: Path, steps: Mapping[str, Any]) -> bool:
    if isinstance(name, str) and name in steps:
        return True
    near = reader.nearest(name, steps)
    reader.value(path, "DSL403", f"there is no step {short(name)}",
                 f"did you mean {near}?" if near else "name a step of the workflow")
    return False


def undoing(steps: Mapping[str, Step]) -> frozenset[str]:
    """The steps that undo others."""
    return frozenset(step.compensate.step for step in steps.values() if step.compensate is not None)


def check_compensations(reader: Reader, steps: Mapping[str, Step], paths: Mapping[str, Path], start: str) -> None:
    """Only a failure or a cancel starts a compensation: no token comes to it, and none leaves it."""
    targets = undoing(steps)
    for name, step in steps.items():
        for index, arc in enumerate(step.arcs if targets else ()):
            if arc.step in targets and name not in targets:
                reader.value((*paths[name], "next", "arcs", index), "DSL410",
                             f"an arc leads to {short(arc.step)}, which compensates another step",
                             "let compensate name a step that no arc leads to")
    for name in sorted(targets & steps.keys()):
        step, at = steps[name], paths[name]
        policy: Path = (*at, "spec", "policy")
        wrong = [
            (name == start, (*at, "step"), "it is the step to begin with", "write a step of its own"),
            (bool(step.arcs), (*at, "next"), "nothing follows it, and it has arcs", "remove next"),
            (bool(step.admit) or step.join != "all", (*policy, "admit"), "no token comes to it, and it has admission",
             "remove admit"),
            (step.compensate is not None, (*policy, "compensate"), "it is not undone itself", "remove compensate"),
            (not step.tasks and name == "end", (*at, "step"), "it has nothing to run", "add tool: to the step"),
        ]
        for is_so, path, message, fix in wrong:
            if is_so:
                reader.key(path, "DSL410", f"{short(name)} compensates another step: {message}", fix)
