"""Steps named by a path, such as `tests/basic`: a name is part of subjects and run ids, so each gets a plain
one, and what leads to it is led there."""

import re
from collections.abc import Mapping

from shared.dsl.lower.nodes import Env, build, changed, get, is_list, is_map, listed, replaced, text_of
from shared.dsl.source.nodes import Entry, Node

_PATH = re.compile(r"/?[A-Za-z0-9_-]+(?:/[A-Za-z0-9_-]+)*\Z")
# keys under which a step is named
_LEADING = ("next", "arcs", "case", "then", "else", "call", "spec", "policy", "compensate")


def plain_names(env: Env, root: Node) -> Node:
    """The root with every path-like step name replaced, and every place that names such a step."""
    workflow = get(root, "workflow")
    if workflow is None or not is_list(workflow):
        return root
    names: dict[str, str] = {}
    for step in listed(workflow):
        name = text_of(get(step, "step"))
        if "/" in name and _PATH.match(name) and name not in names:
            at = get(step, "step") or step
            names[name] = env.label(_plain(name), at.position, f"step {name}")
    if not names:
        return root
    put: dict[str, Node | None] = {"workflow": replaced(workflow, [_step(each, names) for each in workflow.value])}
    executor, spec = get(root, "executor"), get(root, "executor", "spec")
    entry = get(spec, "entry_step")
    if executor is not None and spec is not None and entry is not None:
        put["executor"] = changed(executor, {"spec": changed(spec, {"entry_step": _named(entry, names)})})
    return changed(root, put)


def _plain(name: str) -> str:
    stem = name.strip("/").replace("/", "_")
    return stem if stem[0].isalpha() or stem[0] == "_" else f"step_{stem}"


def _named(node: Node, names: Mapping[str, str]) -> Node:
    new = names.get(node.value) if isinstance(node.value, str) else None
    return node if new is None else Node(node.position, new, node.style)


def _step(node: Node, names: Mapping[str, str]) -> Node:
    """A step with another name says in its description what it was called."""
    if not is_map(node):
        return node
    given = text_of(get(node, "step"))
    node = _led(node, names)
    if given in names and get(node, "desc") is None:
        entries = dict(node.value)
        rest = {key: entry for key, entry in entries.items() if key != "step"}
        at = node.position
        node = Node(at, {"step": entries["step"], "desc": Entry(at, build(at, given)), **rest})
    return node


def _led(node: Node, names: Mapping[str, str], *, next_: bool = False) -> Node:
    """`next_`: a text here is the name of a step."""
    if isinstance(node.value, str):
        return _named(node, names) if next_ else node
    if isinstance(node.value, list):
        return replaced(node, [_led(each, names, next_=next_) for each in node.value])
    if not is_map(node):
        return node
    put: dict[str, Node | None] = {}
    for key, entry in node.value.items():
        if key == "step":
            put[key] = _named(entry.node, names)
        elif key in _LEADING:
            put[key] = _led(entry.node, names, next_=key in ("next", "compensate"))
    return changed(node, put)
