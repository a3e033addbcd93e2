"""The names a template reads without a fallback, with their lines. `x | default(…)` and `x is defined`
say that the author knows x may be missing."""

from functools import lru_cache

from jinja2 import meta, nodes
from msgspec import Struct

from shared.dsl.template_compile import CACHE, parse
from shared.dsl.template_methods import FUNCTIONS

SPACES = ("workload", "ctx", "args", "iter")


class Read(Struct, frozen=True):
    """`space` is empty for a bare name. `line` counts from 0."""

    name: str
    line: int
    space: str = ""


@lru_cache(maxsize=CACHE)
def reads(text: str) -> tuple[Read, ...]:
    try:
        tree = parse(text)
        free = meta.find_undeclared_variables(tree) - set(FUNCTIONS)
    except Exception:  # told elsewhere, with its line
        return ()
    spared = _spared(tree)
    cared_for = {node.name for node in tree.find_all(nodes.Name) if id(node) in spared}
    found: dict[tuple[str, str], Read] = {}
    for node in tree.find_all(nodes.Name):
        if node.name in free and node.name not in cared_for:
            found.setdefault(("", node.name), Read(node.name, node.lineno - 1))
    for access, space, key in _keys(tree):
        if space in free and id(access) not in spared:
            found.setdefault((space, key), Read(key, access.lineno - 1, space))
    return tuple(found.values())


def _spared(tree: nodes.Template) -> set[int]:
    """What stands under a `default` or a test for being defined."""
    spared: set[int] = set()
    for use in tree.find_all((nodes.Filter, nodes.Test)):
        assert isinstance(use, nodes.Filter | nodes.Test)
        if use.name in ("default", "d", "defined", "undefined", "none") and use.node is not None:
            spared.add(id(use.node))
            spared.update(id(below) for below in use.node.find_all(nodes.Node))
    return spared


def _keys(tree: nodes.Template) -> list[tuple[nodes.Node, str, str]]:
    """`ctx.key` and `ctx['key']`; a method such as `ctx.get(…)` is no key."""
    called = {id(call.node) for call in tree.find_all(nodes.Call)}
    found: list[tuple[nodes.Node, str, str]] = []
    for access in tree.find_all((nodes.Getattr, nodes.Getitem)):
        assert isinstance(access, nodes.Getattr | nodes.Getitem)
        owner = access.node
        if id(access) in called or not isinstance(owner, nodes.Name) or owner.name not in SPACES:
            continue
        if isinstance(access, nodes.Getattr):
            found.append((access, owner.name, access.attr))
        elif isinstance(access.arg, nodes.Const) and isinstance(access.arg.value, str):
            found.append((access, owner.name, access.arg.value))
    return found
