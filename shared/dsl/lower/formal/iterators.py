"""An iterator's bare name is the element of the current iteration (FX §5.2, FS §6.2), whatever `ctx` and `args` hold.

A bare name is otherwise that of `args`, then of `ctx`, then of `iter` (DSL2 §3.6). Where a playbook writes a key that
is called like an iterator, the bare name is therefore read of the iteration by what it stands for: `iter.item`, or
`iter.parent.item` of a loop around. Elsewhere the text stays as its author wrote it."""

from collections.abc import Iterator

from shared.dsl.lower.names import Names, renamed_node
from shared.dsl.lower.nodes import Env, changed, get, is_list, is_map, items, listed, replaced, text_of
from shared.dsl.source.nodes import Node

SINCE = 4  # the edition
_READ = ("spec", "stop_when")


def bind_iterators(env: Env, steps: list[Node]) -> list[Node]:
    """The lowered steps, with the bare names of their iterators bound."""
    if env.edition < SINCE or "loop" not in env.keys:
        return steps
    written = {name for step in steps for name in _written(step)}
    return [_bound(env, step, written) if is_map(step) and written else step for step in steps]


def _written(node: Node, *, arcs: bool = False) -> Iterator[str]:
    """The keys that the playbook writes to `ctx`, and those of the args of arcs and compensations."""
    for key, below in items(node):
        if key == "set_ctx" or (arcs and key == "args"):
            yield from (name for name, _ in items(below))
        yield from _written(below, arcs=arcs or key in ("next", "compensate"))
    for each in listed(node):
        yield from _written(each, arcs=arcs)


def _bound(env: Env, step: Node, written: set[str]) -> Node:
    loop, tool = get(step, "loop"), get(step, "tool")
    levels = list(_levels(loop))
    put: dict[str, Node | None] = {}
    if (names := _names(levels, written)) is not None and loop is not None:
        put["loop"] = _inner(changed(loop, {key: renamed_node(below, names) for key in _READ
                                            if (below := get(loop, key)) is not None}), [], written)
        if (spec := get(step, "spec")) is not None:
            put["spec"] = renamed_node(spec, names)
    if tool is not None and is_map(tool):
        put["tool"] = _task(env, tool, levels, written)
    elif tool is not None and is_list(tool):
        put["tool"] = replaced(tool, [_item(env, each, levels, written) for each in tool.value])
    return changed(step, put) if put else step


def _levels(loop: Node | None) -> Iterator[str]:
    """The iterators of a loop and of those within it, the outermost first."""
    while is_map(loop):
        yield text_of(get(loop, "iterator"))
        loop = get(loop, "loop")


def _names(levels: list[str], written: set[str]) -> Names | None:
    """What the bare names stand for in the innermost loop; None where nothing of the playbook is called so."""
    plain = {name: "iter." + "parent." * around + name
             for around, name in reversed(list(enumerate(reversed(levels)))) if name in written}
    return Names(plain=plain) if plain else None


def _inner(loop: Node, around: list[str], written: set[str]) -> Node:
    """`in` of a loop within a loop sees the iterations around it."""
    names, over, inner = _names(around, written), get(loop, "in"), get(loop, "loop")
    put: dict[str, Node | None] = {}
    if names is not None and over is not None:
        put["in"] = renamed_node(over, names)
    if inner is not None and is_map(inner):
        put["loop"] = _inner(inner, [*around, text_of(get(loop, "iterator"))], written)
    return changed(loop, put) if put else loop


def _item(env: Env, item: Node, levels: list[str], written: set[str]) -> Node:
    """A task of a list, with its label or without."""
    if is_map(item) and "kind" not in item.value and len(item.value) == 1:
        return changed(item, {label: _task(env, body, levels, written) if is_map(body) else body
                              for label, body in items(item)})
    return _task(env, item, levels, written) if is_map(item) else item


def _task(env: Env, task: Node, levels: list[str], written: set[str]) -> Node:
    own, around = get(task, "loop"), _names(levels, written)
    names = _names([*levels, *_levels(own)], written)
    if names is None:
        return task
    kind = env.kinds.get(text_of(get(task, "kind")))
    verbatim = {key for key, spec in kind.keys.items() if not spec.template} if kind is not None else set()
    put: dict[str, Node | None] = {key: renamed_node(below, names) for key, below in items(task)
                                   if key not in verbatim and key != "loop"}
    if own is not None and around is not None:
        put["loop"] = renamed_node(own, around)
    return changed(task, put)
