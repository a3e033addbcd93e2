"""A task: its kind, its keys against what the tool takes, its effective spec."""

from collections.abc import Mapping
from typing import Any

from shared.dsl import told
from shared.dsl.kinds import ToolSpec
from shared.dsl.normalise import TaskSource
from shared.dsl.overlay import effective_spec, read_knobs
from shared.dsl.plan import Task
from shared.dsl.reader import Reader, short
from shared.dsl.rules import read_task_policy
from shared.dsl.texts import check_templates

COMMON_KEYS = ("name", "kind", "desc", "spec", "args", "auth")

_KIND_HINTS = {
    "sink": "storage is a task like any other, such as kind: postgres",
    "iterator": "put loop: {in: …, iterator: …} on the step",
    "workbook": "write the task out in the step",
    "loop": "put loop: {in: …, iterator: …} on the step",
}


def read_task(reader: Reader, source: TaskSource, kinds: Mapping[str, ToolSpec],
              outer: tuple[Mapping[str, Any], ...], labels: frozenset[str]) -> Task:
    """`outer` are the specs around the task, outermost first; `labels` the tasks `jump` may name."""
    tool = _tool(reader, source, kinds)
    body, path = source.body, source.path
    if tool is not None:
        _keys(reader, source, tool)
    _common(reader, body, path)
    knobs, rules = _spec(reader, body, path, tool, labels)
    config = {key: value for key, value in body.items() if key not in ("name", "kind", "desc", "spec")}
    for key, value in config.items():
        if tool is None or key not in tool.keys or tool.keys[key].template:
            # a pure tool answers with its own keys, and the answer is recorded
            check_templates(reader, value, (*path, key), secrets=tool is None or not tool.pure)
    kind = tool.kind if tool else ""
    return Task(source.name, kind, config, effective_spec(tool, (*outer, knobs)), rules)


def _tool(reader: Reader, source: TaskSource, kinds: Mapping[str, ToolSpec]) -> ToolSpec | None:
    path = (*source.path, "kind")
    if not reader.required(source.body, "kind", source.path, f"task {short(source.name)}",
                           f"add kind: one of {', '.join(sorted(kinds))}"):
        return None
    kind = source.body["kind"]
    if isinstance(kind, str) and kind in kinds:
        return kinds[kind]
    fix = _KIND_HINTS.get(kind, "") if isinstance(kind, str) else ""
    near = "" if fix else reader.nearest(kind, kinds)
    reader.value(path, "DSL405", f"there is no tool kind {short(kind)}",
                 fix or (f"did you mean {near}?" if near else f"one of: {', '.join(sorted(kinds))}"))
    return None


def _keys(reader: Reader, source: TaskSource, tool: ToolSpec) -> None:
    known = (*COMMON_KEYS, *(key for key in tool.keys if key not in COMMON_KEYS))
    reader.keys(source.body, source.path, known, told.TASK, f"a task of kind {tool.kind}")
    for key, spec in tool.keys.items():
        if spec.required:
            reader.required(source.body, key, source.path, f"task {short(source.name)} of kind {tool.kind}",
                            f"add {key}: {spec.doc}")


def _common(reader: Reader, body: Mapping[str, Any], path: tuple[str | int, ...]) -> None:
    if "desc" in body:
        reader.text(body["desc"], (*path, "desc"), "write desc: some text")
    if "auth" in body:
        reader.text(body["auth"], (*path, "auth"), "write auth: <credential name>")
    if "args" in body:
        reader.mapping(body["args"], (*path, "args"), "write args: {name: value}")


def _spec(reader: Reader, body: Mapping[str, Any], path: tuple[str | int, ...], tool: ToolSpec | None,
          labels: frozenset[str]) -> tuple[dict[str, Any], Any]:
    at = (*path, "spec")
    if "spec" not in body:
        return {}, None
    spec = reader.mapping(body["spec"], at, "write spec: {policy: {rules: […]}}")
    knobs = tuple(tool.all_knobs()) if tool else ()
    if tool is not None:
        moved = {"rules": told.moved("rules", "policy: {rules: […]}"),
                 "pool": told.moved("pool", "spec: {pool: …} on the step")}
        reader.keys(spec, at, ("policy", *knobs), moved, "a task's spec")
    rules = read_task_policy(reader, spec["policy"], (*at, "policy"), labels) if "policy" in spec else None
    return read_knobs(reader, spec, at, knobs), rules
