"""A step's `next`: the router object with its arcs (V10 §5.5)."""

from collections.abc import Mapping
from typing import Any

from shared.dsl.model.plan import Arc
from shared.dsl.read import rejected_keys
from shared.dsl.read.reader import Reader, kind_of, short
from shared.dsl.read.template_fields import check_templates, read_condition
from shared.dsl.source.nodes import Path
from shared.dsl.templates.conditions import reads_event

MAX_ARCS = 200
MODES = ("exclusive", "inclusive")


def read_next(reader: Reader, value: Any, path: Path,
              steps: Mapping[str, Any]) -> tuple[tuple[Arc, ...], str]:
    """The arcs and the mode. `steps` are the names an arc may lead to."""
    if not isinstance(value, dict):
        if isinstance(value, str | list):
            reader.key(path, *rejected_keys.NEXT_TEXT)
        else:
            reader.value(path, "DSL203", f"next must be a mapping, not {kind_of(value)}", rejected_keys.NEXT_TEXT.fix)
        return (), "exclusive"
    reader.keys(value, path, ("spec", "arcs"), rejected_keys.NEXT, "next")
    mode = _mode(reader, value, path)
    if "arcs" not in value:
        if "step" not in value:
            reader.required(value, "arcs", path, "next", rejected_keys.NEXT_TEXT.fix)
        return (), mode
    at = (*path, "arcs")
    listed = reader.listing(value["arcs"], at, "write arcs: [{step: …}]")
    if len(listed) > MAX_ARCS:
        reader.key(at, "DSL801", f"{len(listed)} arcs, over the limit of {MAX_ARCS}",
                   "route through a step between")
        listed = listed[:MAX_ARCS]
    arcs = [_arc(reader, item, (*at, index), steps) for index, item in enumerate(listed)]
    return tuple(arc for arc in arcs if arc is not None), mode


def _mode(reader: Reader, value: Mapping[str, Any], path: Path) -> str:
    spec = reader.section(value, "spec", path, ("mode", "policy"), rejected_keys.NEXT_SPEC)
    at = (*path, "spec")
    if spec.get("policy", {}) != {}:
        hints = reader.mapping(spec["policy"], (*at, "policy"), "write policy: {}, or leave it out")
        reader.keys(hints, (*at, "policy"), (), rejected_keys.NEXT_POLICY, "next.spec.policy")
    return reader.choice(spec["mode"], (*at, "mode"), MODES) if "mode" in spec else "exclusive"


def _arc(reader: Reader, item: Any, path: Path, steps: Mapping[str, Any]) -> Arc | None:
    if not isinstance(item, dict):
        reader.value(path, "DSL203", f"an arc must be a mapping, not {kind_of(item)}", "write - step: <name>")
        return None
    reader.keys(item, path, ("step", "when", "args"), rejected_keys.ARC, "an arc")
    when = read_condition(reader, item["when"], (*path, "when")) if "when" in item else None
    args: dict[str, Any] = {}
    if "args" in item:
        args = reader.mapping(item["args"], (*path, "args"), "write args: {name: value}")
        check_templates(reader, args, (*path, "args"), secrets=False)
    if not reader.required(item, "step", path, "the arc", "add step: <name>"):
        return None
    target = _target(reader, item["step"], (*path, "step"), steps)
    return Arc(target, when, args, reads_event(when)) if target else None


def _target(reader: Reader, value: Any, path: Path, steps: Mapping[str, Any]) -> str:
    if isinstance(value, str) and value in steps:
        return value
    near = reader.nearest(value, steps)
    fix = f"did you mean {near}?" if near else f"add - step: {value if isinstance(value, str) else '<name>'}"
    reader.value(path, "DSL403", f"there is no step {short(value)}", fix[:200])
    return ""
