"""A task: its kind, its keys against what the tool accepts, its effective spec."""

from collections.abc import Mapping
from typing import Any

from shared.dsl.model.plan import Task
from shared.dsl.model.tool_spec import KeySpec, ToolSpec
from shared.dsl.read import rejected_keys
from shared.dsl.read.assertions import read_assert, read_select
from shared.dsl.read.auth import read_auth
from shared.dsl.read.loops import read_task_loop
from shared.dsl.read.reader import Reader, short
from shared.dsl.read.shapes import TaskSource
from shared.dsl.read.spec_layers import effective_spec, read_knobs
from shared.dsl.read.task_policy import read_task_policy
from shared.dsl.read.template_fields import check_templates
from shared.dsl.source.nodes import Path
from shared.dsl.templates.analysis import facts

COMMON_KEYS = ("name", "kind", "desc", "spec", "args", "auth", "assert", "output_select", "loop")
_NOT_THE_TOOLS = ("name", "kind", "desc", "spec", "assert", "output_select", "loop")

_KIND_HINTS = {
    "sink": "storage is a task like any other, such as kind: postgres",
    "iterator": "put loop: {in: …, iterator: …} on the step",
    "workbook": "write the task out in the step",
    "loop": "put loop: {in: …, iterator: …} on the step",
    **dict.fromkeys(("subscription", "subscribe", "listener", "consumer"),
                    "messages start executions by a document of their own: apiVersion: noetl.io/v2, kind: Trigger"),
    **dict.fromkeys(("cron", "schedule"), "times start executions by a document of their own: kind: Schedule"),
}


def read_task(reader: Reader, source: TaskSource, kinds: Mapping[str, ToolSpec],
              outer: tuple[Mapping[str, Any], ...], labels: frozenset[str]) -> Task:
    """`outer` are the specs around the task, outermost first; `labels` the tasks `jump` may name."""
    tool = _tool(reader, source, kinds)
    body, path = source.body, source.path
    if tool is not None:
        _keys(reader, source, tool)
    _common(reader, body, path, tool)
    knobs, rules = _spec(reader, body, path, tool, labels)
    config = {key: value for key, value in body.items() if key not in _NOT_THE_TOOLS}
    for key, value in config.items():
        if tool is None or key not in tool.keys or tool.keys[key].template:
            # a pure tool answers with its own keys, and the answer is recorded; so is what a task waits for
            check_templates(reader, value, (*path, key), secrets=tool is None or not (tool.pure or tool.waits))
    kind = tool.kind if tool else ""
    expects, returns = read_assert(reader, body, path)
    return Task(
        name=source.name, kind=kind, config=config, spec=effective_spec(tool, (*outer, knobs)), rules=rules,
        expects=expects, returns=returns, select=read_select(reader, body, path),
        loop=read_task_loop(reader, body, path),
    )


def _tool(reader: Reader, source: TaskSource, kinds: Mapping[str, ToolSpec]) -> ToolSpec | None:
    path = (*source.path, "kind")
    if not reader.required(source.body, "kind", source.path, reader.task(source.name),
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
    reader.keys(source.body, source.path, known, rejected_keys.TASK, f"a task of kind {tool.kind}")
    _fields(reader, source.body, source.path, tool.keys, f"{reader.task(source.name)} of kind {tool.kind}")
    _one_of(reader, source, tool)


def _fields(reader: Reader, body: Mapping[str, Any], path: Path, keys: Mapping[str, KeySpec], what: str) -> None:
    for key, spec in keys.items():
        if spec.required:
            reader.required(body, key, path, what, f"add {key}: {spec.doc}")
        if key not in body:
            continue
        at, value = (*path, key), body[key]
        if spec.fields:
            below = reader.section(body, key, path, spec.fields)
            _fields(reader, below, at, spec.fields, f"{key} of {what}")
        elif spec.choices and not (isinstance(value, str) and "{{" in value):
            reader.choice(value, at, spec.choices)
        elif spec.most and isinstance(value, str) and "{{" not in value:
            reader.text(value, at, f"at most {spec.most} characters", most=spec.most)


def _one_of(reader: Reader, source: TaskSource, tool: ToolSpec) -> None:
    given = [key for key in tool.one_of if key in source.body]
    what = f"{reader.task(source.name)} of kind {tool.kind}"
    if tool.one_of and not given:
        reader.key(source.path, "DSL202", f"{what} has none of {', '.join(tool.one_of)}",
                   f"add {tool.one_of[0]}: {tool.keys[tool.one_of[0]].doc}")
    for key in given[1:]:
        reader.key((*source.path, key), "DSL204", f"{what} has {given[0]} and {key}", "keep one of the two")


def _common(reader: Reader, body: Mapping[str, Any], path: tuple[str | int, ...], tool: ToolSpec | None) -> None:
    if "desc" in body:
        reader.text(body["desc"], (*path, "desc"), "write desc: some text")
    if "auth" in body:
        read_auth(reader, body["auth"], (*path, "auth"), tool)
    if "args" in body:
        _args(reader, body["args"], (*path, "args"), rows="table" in body and tool is not None and _takes_rows(tool))


def _takes_rows(tool: ToolSpec) -> bool:
    return "args" in tool.keys and tool.keys["args"].rows


def _args(reader: Reader, value: Any, path: Path, *, rows: bool) -> None:
    """A mapping; with a table also a list of them, or an expression that gives either."""
    if rows and isinstance(value, list):
        for index, row in enumerate(value):
            if not (isinstance(row, str) and "{{" in row):
                reader.mapping(row, (*path, index), "write a row: {column: value}")
        return
    if rows and isinstance(value, str) and "{{" in value and facts(value).exact:
        return
    fix = "write args: {column: value}, or a list of such rows" if rows else "write args: {name: value}"
    reader.mapping(value, path, fix)


def _spec(reader: Reader, body: Mapping[str, Any], path: tuple[str | int, ...], tool: ToolSpec | None,
          labels: frozenset[str]) -> tuple[dict[str, Any], Any]:
    at = (*path, "spec")
    if "spec" not in body:
        return {}, None
    spec = reader.mapping(body["spec"], at, "write spec: {policy: {rules: […]}}")
    knobs = tuple(tool.all_knobs()) if tool else ()
    if tool is not None:
        moved = {"rules": rejected_keys.moved("rules", "policy: {rules: […]}"),
                 "pool": rejected_keys.moved("pool", "spec: {pool: …} on the step")}
        reader.keys(spec, at, ("policy", *knobs), moved, "a task's spec")
    rules = read_task_policy(reader, spec["policy"], (*at, "policy"), labels) if "policy" in spec else None
    return read_knobs(reader, spec, at, knobs), rules
