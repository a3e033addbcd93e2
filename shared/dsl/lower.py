"""The formal dialect of FX and FS, today's spellings and the sugar of V10 §14, rewritten to the canonical
form before it is read. Pure; generated nodes stand where they came from, and canonical input comes back
as the same document."""

from collections.abc import Mapping

from msgspec import Struct

from shared.dsl.diagnostics import Diagnostic
from shared.dsl.kinds import ToolSpec
from shared.dsl.lower_arcs import arcs_that_set
from shared.dsl.lower_names import renamed_node
from shared.dsl.lower_next import plain_next
from shared.dsl.lower_nodes import Env, build, changed, get, is_list, is_map, items, listed, renamed, replaced, text_of
from shared.dsl.lower_places import EVERYWHERE, on_arc
from shared.dsl.lower_step import FORMAL, lower_formal
from shared.dsl.lower_tasks import lower_tool
from shared.dsl.plan import Origin
from shared.dsl.source import Document, Node

_ITERATOR = {"collection": "in", "items": "in", "element": "iterator"}
_LOOP_KEYS = ("in", "iterator", "mode", "max_in_flight", "spec")


class Lowered(Struct, frozen=True):
    """`labels` says of every generated step and task where it comes from."""

    document: Document
    diagnostics: tuple[Diagnostic, ...] = ()
    labels: Mapping[str, Origin] = {}


def lower(document: Document, kinds: Mapping[str, ToolSpec], file: str = "") -> Lowered:
    env = Env(file, kinds, set(), {}, [], {})
    env.taken = _names(document.root)
    root = _root(env, document.root)
    workflow = get(root, "workflow")
    if workflow is not None and is_list(workflow):
        root = changed(root, {"workflow": _workflow(env, workflow)})
    if root is document.root:
        return Lowered(document, tuple(env.diagnostics))
    return Lowered(Document(root, document.lines, root.plain()), tuple(env.diagnostics), env.labels)


def _root(env: Env, root: Node) -> Node:
    """Root `name` and `path` (FX §2.1) to metadata; the workbook is taken apart and leaves."""
    metadata = get(root, "metadata")
    put: dict[str, Node | None] = {}
    moved = {key: value for key in ("name", "path") if (value := get(root, key)) is not None}
    if moved and (metadata is None or is_map(metadata)):
        base = metadata if metadata is not None else build(next(iter(moved.values())).place, {})
        for key in moved:
            if get(base, key) is not None:
                env.error(root.value[key].key, "DSL401", f"{key} is given at the root and in metadata",
                          f"keep metadata.{key}")
        put = {"metadata": changed(base, {**moved, **dict(items(base))}), **dict.fromkeys(moved)}
    workbook = get(root, "workbook")
    if workbook is not None and _read_workbook(env, workbook):
        put["workbook"] = None
    if (workload := get(root, "workload")) is not None:
        put["workload"] = renamed_node(workload, EVERYWHERE)
    return changed(root, put)


def _read_workbook(env: Env, workbook: Node) -> bool:
    """A list of `{name, tool}` (FS §5), or a mapping of named tasks (FX §2.1, DSL2)."""
    tasks = get(workbook, "tasks")
    named = list(items(tasks if tasks is not None and len(workbook.value) == 1 else workbook))
    if is_list(workbook) or is_list(tasks):
        named = [(text_of(get(each, "name")), each) for each in listed(tasks if is_list(tasks) else workbook)]
    if not named:
        return False
    for name, each in named:
        tool = get(each, "tool")
        body = tool if is_map(tool) else each
        if not name or not is_map(body) or get(body, "kind") is None:
            env.error(each, "DSL202", "a workbook task needs a name and a tool with its kind",
                      "write - name: …, tool: {kind: …}")
            continue
        assert body is not None
        if (sink := get(each, "sink")) is not None and tool is not None:
            body = changed(body, {"sink": sink})
        if name in env.workbook:
            env.error(each, "DSL401", f"the workbook has {name!r} already", "use another name")
        env.workbook[name] = changed(body, {"name": None}) if "name" in body.value else body
    return True


def _names(root: Node) -> set[str]:
    """Every text under `step` or `name`, so that no generated name is like one the author gave."""
    found: set[str] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node.value, dict):
            for key, entry in node.value.items():
                stack.append(entry.node)
                if key in ("step", "name") and isinstance(entry.node.value, str):
                    found.add(entry.node.value)
        elif isinstance(node.value, list):
            stack += node.value
    return found


def _workflow(env: Env, workflow: Node) -> Node:
    found: list[Node] = []
    for each in workflow.value:
        for step in _step(env, each) if is_map(each) and text_of(get(each, "step")) else [each]:
            found += arcs_that_set(env, step) if is_map(step) else [step]
    return replaced(workflow, found)


def _step(env: Env, node: Node) -> list[Node]:
    step = text_of(get(node, "step"))
    node = _iterator(renamed(node, "input", "args"))
    loop, tool = get(node, "loop"), get(node, "tool")
    put: dict[str, Node | None] = {}
    if loop is not None and is_map(loop):
        put["loop"] = renamed_node(_loop(loop), EVERYWHERE)
    if (spec := get(node, "spec")) is not None:
        put["spec"] = renamed_node(spec, EVERYWHERE)
    if tool is not None:
        tool = put["tool"] = lower_tool(env, step, tool)
    sinks = [sink for sink in (_own_sink(each) for each in ([tool] if is_map(tool) else listed(tool))) if sink]
    node = changed(node, put)
    if sinks and tool is not None:
        tool, node = _sinks_of_tasks(node, tool, sinks)
    if any(key in node.value for key in FORMAL):
        return lower_formal(env, step, node, tool)
    following = get(node, "next")
    if following is None:
        return [node]
    last = tool if is_map(tool) else next(reversed(listed(tool)), None)
    kind = text_of(get(last, "kind"))
    return [changed(node, {"next": plain_next(env, following, on_arc(kind, loop=loop is not None))})]


def _own_sink(task: Node | None) -> Node | None:
    return get(task, "sink") if is_map(task) else None


def _sinks_of_tasks(node: Node, tool: Node, sinks: list[Node]) -> tuple[Node, Node]:
    """A sink that came with a workbook task (FS §5) is the step's."""
    tool = changed(tool, {"sink": None}) if is_map(tool) else \
        Node(tool.place, [changed(each, {"sink": None}) if _own_sink(each) else each for each in tool.value])
    own = get(node, "sink")
    more = [*sinks, *((listed(own) if is_list(own) else [own]) if own is not None else [])]
    return tool, changed(node, {"tool": tool, "sink": Node(node.place, more)})


def _loop(loop: Node) -> Node:
    """`mode` beside `in` (FX §5.2); `async` is parallel (FS §6.1)."""
    spec = get(loop, "spec")
    moved = {key: value for key in ("mode", "max_in_flight") if (value := get(loop, key)) is not None}
    base = spec if spec is not None else build(loop.place, {})
    if moved and is_map(base):
        loop = changed(loop, {**dict.fromkeys(moved), "spec": changed(base, {**moved, **dict(items(base))})})
    mode = get(loop, "spec", "mode")
    if mode is not None and mode.value == "async":
        spec = get(loop, "spec")
        assert spec is not None
        loop = changed(loop, {"spec": changed(spec, {"mode": build(mode.place, "parallel")})})
    return loop


def _iterator(node: Node) -> Node:
    """`kind: iterator` (FS §4.2): the loop of the step around the tool inside it."""
    tool = get(node, "tool")
    if tool is None or text_of(get(tool, "kind")) != "iterator" or get(node, "loop") is not None:
        return node
    for old, new in _ITERATOR.items():
        tool = renamed(tool, old, new)
    inner = get(tool, "tool") or get(tool, "task")
    if inner is None:
        return node
    loop = {key: value for key in _LOOP_KEYS if (value := get(tool, key)) is not None}
    return changed(node, {"loop": build(tool.place, loop), "tool": inner})
