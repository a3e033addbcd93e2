"""`kind: workbook` (FS §5): the named task in the place of the reference, with the arguments of both bound. Those of
the call win over the task's own, which are its defaults."""

from collections import Counter
from itertools import chain
from typing import Any

from shared.dsl.lower.bounds import may_copy
from shared.dsl.lower.build import directive, noop, otherwise, renamed_task
from shared.dsl.lower.name_meanings import EVERYWHERE, with_args
from shared.dsl.lower.names import renamed_node
from shared.dsl.lower.nodes import Env, build, changed, get, is_map, items, text_of
from shared.dsl.lower.today.shapes import with_input
from shared.dsl.source.nodes import Node
from shared.dsl.templates.needs import names_used

_RESERVED = ("index", "count", "parent")  # keys of `iter` that the engine sets
_ROWS = ("postgres", "duckdb", "ducklake", "snowflake")  # with `table`, `args` are what is inserted


def inlined(env: Env, task: Node, label: str) -> tuple[list[Node], Node]:
    """The tasks before it that bind arguments, and the body of the task."""
    reference = get(task, "task") or get(task, "name")
    entry = env.workbook.get(text_of(reference))
    if entry is None:
        known = ", ".join(sorted(env.workbook)[:20]) or "none"
        env.error(reference or task, "DSL408", f"the workbook has no task {text_of(reference)!r}", f"known: {known}")
        return [], build(task.position, {"kind": "noop"})
    if not may_copy(env, task, entry):
        return [], build(task.position, {"kind": "noop"})
    extra = {key: value for key, value in items(task) if key not in ("kind", "name", "task", "args")}
    body, args = with_input(changed(with_input(entry), extra)), get(task, "args")
    if args is None or not is_map(args):
        args = build(task.position, {})
    keys = arg_keys(env, args)
    defaults: dict[str, Node] = {}
    if env.edition > 2:
        defaults = _defaults(body, keys)
        if both := [name for name in keys if get(body, "args", name) is not None]:
            env.note(task, f"the call's {', '.join(both)[:60]} wins over that of the workbook task",
                     "leave it out of the call for the task's own")
        body = _overridden(body, keys)
    found = _binding(env, args, label, "args", keys, dict(items(args)), EVERYWHERE)
    more = {name: _kept(name) for name in defaults}
    found += _binding(env, body, label, "defaults", more, defaults, with_args(EVERYWHERE, keys))
    keys = {**keys, **more}
    return found, hand_over(renamed_task(env, body, with_args(EVERYWHERE, keys)), keys) if keys else body


def with_step_args(env: Env, step: Node, tool: Node) -> Node:
    """The arguments of a step are the call's as well, below those that the call itself gives."""
    args, own = get(step, "args"), get(tool, "args")
    if env.edition < 3 or text_of(get(tool, "kind")) != "workbook" or not is_map(args):
        return tool
    if own is not None and not is_map(own):
        return tool
    known = {name: build(tool.position, "{{ iter." + _kept(name) + " }}") for name, _ in items(args)
             if name.isidentifier()}
    return changed(tool, {"args": build(tool.position, {**known, **dict(items(own))})})


def _kept(name: str) -> str:
    return f"arg_{name}" if name in _RESERVED else name


def _binding(env: Env, at: Node, label: str, what: str, keys: dict[str, str], values: dict[str, Node],
             names: Any) -> list[Node]:
    bound = {keys[name]: renamed_node(value, names) for name, value in values.items() if name in keys}
    if not bound:
        return []
    name = env.label(f"{label}_{what}", at.position, f"the {what} of workbook task {label}")
    return [noop(at.position, name, [otherwise(directive("continue", set_iter=bound, result="_prev"))])]


def _defaults(body: Node, given: dict[str, str]) -> dict[str, Node]:
    """The task's own arguments that the call does not give and the rest of the task reads. A credential stays where it
    is: nothing else may hold one."""
    own = dict(items(get(body, "args")))
    used = {name: names_used(value.plain()).names for name, value in own.items()}
    readers = Counter(chain.from_iterable(used.values()))  # an argument that reads its own name is no reader of it
    outside = names_used(changed(body, {"args": None}).plain()).names
    return {name: value for name, value in own.items()
            if name not in given and name.isidentifier() and "keychain" not in used[name]
            and (name in outside or readers[name] > (name in used[name]))}


def _overridden(body: Node, given: dict[str, str]) -> Node:
    """The task with the call's arguments in the place of its own."""
    own, kind = get(body, "args"), text_of(get(body, "kind"))
    refs = {name: build(body.position, "{{ iter." + at + " }}") for name, at in given.items()}
    if own is None and refs and (kind == "noop" or (kind in _ROWS and get(body, "table") is not None)):
        return changed(body, {"args": build(body.position, refs)})
    if own is None or not is_map(own):
        return body
    return changed(body, {"args": changed(own, {name: ref for name, ref in refs.items() if name in own.value})})


def arg_keys(env: Env, args: Node | None) -> dict[str, str]:
    """The key of `iter` under which each argument is kept."""
    found = {}
    for name, value in items(args):
        if name.isidentifier():
            found[name] = _kept(name)
        else:
            env.error(value, "DSL205", f"an argument cannot be called {name[:60]!r}", "letters, digits and _")
    return found


def hand_over(task: Node, keys: dict[str, str]) -> Node:
    """A program gets the arguments as its variables, beside those it names itself; one it names without a value
    is a place for an argument."""
    if text_of(get(task, "kind")) != "python" or not keys:
        return task
    own = get(task, "args")
    if own is not None and not is_map(own):
        return task
    given = {name: build(task.position, "{{ iter." + at + " }}") for name, at in keys.items()}
    named_here = {name: value for name, value in items(own) if value.value is not None or name not in given}
    return changed(task, {"args": build(task.position, {**given, **named_here})})
