"""The formal dialect of FX and FS, today's spellings and the sugar of V10 §14, rewritten to the canonical
form before it is read. Pure; generated nodes have the place of what they came from, and canonical input comes back
as the same document."""

from collections.abc import Mapping, Set

from msgspec import Struct

from shared.dsl.lower.arc_set import arcs_that_set
from shared.dsl.lower.bounds import short_lists, short_tool
from shared.dsl.lower.commands import reads_commands
from shared.dsl.lower.formal.iterators import bind_iterators
from shared.dsl.lower.formal_step import FORMAL, lower_formal
from shared.dsl.lower.name_meanings import EVERYWHERE, kinds_of_errors, on_arc, unwrapped, with_failures
from shared.dsl.lower.names import renamed_node
from shared.dsl.lower.next import plain_next
from shared.dsl.lower.no_match import must_match, taken_off
from shared.dsl.lower.nodes import Env, build, changed, get, is_list, is_map, items, listed, renamed, replaced, text_of
from shared.dsl.lower.program import hand_arguments, hand_wholes
from shared.dsl.lower.results import lower_results
from shared.dsl.lower.root import lower_root
from shared.dsl.lower.step_names import plain_names
from shared.dsl.lower.tasks import lower_tool
from shared.dsl.lower.today.last_step import lead_to_the_end
from shared.dsl.lower.today.names import todays_names
from shared.dsl.lower.today.shapes import cursor_mode
from shared.dsl.lower.workbook import with_step_args
from shared.dsl.model.diagnostics import Diagnostic
from shared.dsl.model.edition import EDITION
from shared.dsl.model.plan import Origin
from shared.dsl.model.tool_spec import ToolSpec
from shared.dsl.source.nodes import Document, Node

_ITERATOR = {"collection": "in", "items": "in", "element": "iterator"}
_LOOP_KEYS = ("in", "iterator", "mode", "max_in_flight", "spec")


class Lowered(Struct, frozen=True):
    """`labels` says of every generated step and task where it comes from; `cases` and `again` are those of `Env`;
    `notes` is what an earlier edition of the language took otherwise."""

    document: Document
    diagnostics: tuple[Diagnostic, ...] = ()
    labels: Mapping[str, Origin] = {}
    cases: Set[str] = frozenset()
    again: Mapping[tuple[str, str], tuple[str, ...]] = {}
    notes: tuple[Diagnostic, ...] = ()


def lower(document: Document, kinds: Mapping[str, ToolSpec], file: str = "", edition: int = EDITION) -> Lowered:
    env = Env(file, kinds, set(), {}, [], {}, edition=edition)
    env.commands = reads_commands(document.root)
    env.taken, env.keys = _names(document.root)
    root = todays_names(env, lead_to_the_end(env, plain_names(env, lower_root(env, document.root))))
    workflow = get(root, "workflow")
    if workflow is not None and is_list(workflow):
        root = changed(root, {"workflow": _workflow(env, kinds_of_errors(env, workflow))})
    if root is document.root:
        return Lowered(document, tuple(env.diagnostics))
    lowered = Document(root, document.lines, root.plain())
    return Lowered(lowered, tuple(env.diagnostics), env.labels, env.cases, env.again, tuple(env.notes))


def _names(root: Node) -> tuple[set[str], frozenset[str]]:
    """Every text under `step` or `name`, so that no generated name is like one the author gave; and every key."""
    found: set[str] = set()
    keys: set[str] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node.value, dict):
            keys |= node.value.keys()
            for key, entry in node.value.items():
                stack.append(entry.node)
                if key in ("step", "name") and isinstance(entry.node.value, str):
                    found.add(entry.node.value)
        elif isinstance(node.value, list):
            stack += node.value
    return found, frozenset(keys)


def _workflow(env: Env, workflow: Node) -> Node:
    found: list[Node] = []
    for each in workflow.value:
        if not is_map(each) or not text_of(get(each, "step")):
            found.append(each)
            continue
        plain, strict = taken_off(env, each)
        first, *others = _step(env, plain)
        for step in [*(must_match(env, first) if strict else [first]), *others]:
            found += arcs_that_set(env, step)
    return replaced(workflow, bind_iterators(env, hand_arguments(env, hand_wholes(env, found))))


def _step(env: Env, node: Node) -> list[Node]:
    step = text_of(get(node, "step"))
    node = short_tool(env, lower_results(env, _iterator(renamed(node, "input", "args"))))
    loop, tool = get(node, "loop"), get(node, "tool")
    put: dict[str, Node | None] = {}
    if loop is not None and is_map(loop):
        put["loop"] = renamed_node(cursor_mode(env, _loop(loop)), EVERYWHERE)
    if (spec := get(node, "spec")) is not None:
        put["spec"] = renamed_node(spec, EVERYWHERE)
    if tool is not None:
        tool = put["tool"] = lower_tool(env, step, with_step_args(env, node, tool))
    sinks = [sink for sink in (_own_sink(each) for each in ([tool] if is_map(tool) else listed(tool))) if sink]
    node = changed(node, put)
    if sinks and tool is not None:
        tool, node = _sinks_of_tasks(node, tool, sinks)
    if any(key in node.value for key in FORMAL):
        return lower_formal(env, step, short_lists(env, node), tool)
    following = get(node, "next")
    if following is None:
        return [node]
    last = tool if is_map(tool) else next(reversed(listed(tool)), None)
    kind = text_of(get(last, "kind"))
    names = with_failures(unwrapped(on_arc(kind, loop=loop is not None), env.edition), env.edition, "event.result", "")
    return [changed(node, {"next": plain_next(env, following, names)})]


def _own_sink(task: Node | None) -> Node | None:
    return get(task, "sink") if is_map(task) else None


def _sinks_of_tasks(node: Node, tool: Node, sinks: list[Node]) -> tuple[Node, Node]:
    """A sink that came with a workbook task (FS §5) is the step's."""
    tool = changed(tool, {"sink": None}) if is_map(tool) else \
        Node(tool.position, [changed(each, {"sink": None}) if _own_sink(each) else each for each in tool.value])
    own = get(node, "sink")
    more = [*sinks, *((listed(own) if is_list(own) else [own]) if own is not None else [])]
    return tool, changed(node, {"tool": tool, "sink": Node(node.position, more)})


def _loop(loop: Node) -> Node:
    """`mode` beside `in` (FX §5.2); `async` is parallel (FS §6.1)."""
    spec = get(loop, "spec")
    moved = {key: value for key in ("mode", "max_in_flight") if (value := get(loop, key)) is not None}
    base = spec if spec is not None else build(loop.position, {})
    if moved and is_map(base):
        loop = changed(loop, {**dict.fromkeys(moved), "spec": changed(base, {**moved, **dict(items(base))})})
    mode = get(loop, "spec", "mode")
    if mode is not None and mode.value == "async":
        spec = get(loop, "spec")
        assert spec is not None
        loop = changed(loop, {"spec": changed(spec, {"mode": build(mode.position, "parallel")})})
    inner = get(loop, "loop")
    return changed(loop, {"loop": _loop(inner)}) if inner is not None and is_map(inner) else loop


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
    return changed(node, {"loop": build(tool.position, loop), "tool": inner})
