"""The names a template reads without a fallback, with their lines. `x | default(…)` and `x is defined`
say that the author knows x may be missing."""

from jinja2 import nodes
from msgspec import Struct

from shared.dsl.templates.compiler import USES

ACCESSES = (nodes.Getattr, nodes.Getitem)
_FALLBACKS = ("default", "d", "defined", "undefined", "none")
SPACES = ("workload", "ctx", "args", "iter")
NOW = "_now"  # the time of the decision, as text; authors write `now()`


class Read(Struct, frozen=True):
    """`space` is empty for a bare name. `line` counts from 0."""

    name: str
    line: int
    space: str = ""


def reads_of(found: list[nodes.Node], free: set[str]) -> tuple[Read, ...]:
    """`found` are the nodes of a template, `free` the names that come from outside."""
    spared = _spared(found)
    cared_for = {node.name for node in found if isinstance(node, nodes.Name) and id(node) in spared}
    reads: dict[tuple[str, str], Read] = {}
    for node in found:
        if isinstance(node, nodes.Name) and node.name in free and node.name not in cared_for:
            reads.setdefault(("", node.name), Read(node.name, node.lineno - 1))
    for access, space, key in _keys(found):
        if space in free and id(access) not in spared:
            reads.setdefault((space, key), Read(key, access.lineno - 1, space))
    return tuple(reads.values())


def _spared(found: list[nodes.Node]) -> set[int]:
    """What is inside a `default` or a test for being defined."""
    spared: set[int] = set()
    for use in found:
        below = use.node if isinstance(use, USES) and use.name in _FALLBACKS else None
        if below is not None and id(below) not in spared:  # if it is, so is all under it
            spared.add(id(below))
            spared.update(id(each) for each in below.find_all(nodes.Node))
    return spared


def _keys(found: list[nodes.Node]) -> list[tuple[nodes.Node, str, str]]:
    """`ctx.key` and `ctx['key']`; a method such as `ctx.get(…)` is no key."""
    called = {id(node.node) for node in found if isinstance(node, nodes.Call)}
    keys: list[tuple[nodes.Node, str, str]] = []
    for access in found:
        if not isinstance(access, ACCESSES):
            continue
        owner = access.node
        if id(access) in called or not isinstance(owner, nodes.Name) or owner.name not in SPACES:
            continue
        if isinstance(access, nodes.Getattr):
            keys.append((access, owner.name, access.attr))
        elif isinstance(access.arg, nodes.Const) and isinstance(access.arg.value, str):
            keys.append((access, owner.name, access.arg.value))
    return keys
