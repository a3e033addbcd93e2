"""What the compiler asks about the text of a template, found with one parse and one walk, and remembered:
whether it is well formed, what it needs, and which names it reads without a fallback."""

from collections import defaultdict
from functools import lru_cache

from jinja2 import nodes
from msgspec import Struct

from shared.dsl.model.plan import EVERYTHING, Needs
from shared.dsl.templates.compiler import exact, fault, surveyed
from shared.dsl.templates.methods import FUNCTIONS
from shared.dsl.templates.names import ACCESSES, Read, free_names, reads_of
from shared.dsl.templates.values import METHODS

LONG_CHARS = 200   # longer texts are remembered in a small cache, so that both stay small
LONG_CACHE = 256
SHORT_CACHE = 10_000  # as many as a playbook may have
_SPACES = ("ctx", "workload")  # namespaces of which single keys are carried


class Facts(Struct, frozen=True):
    """`wrong` is what is wrong, and the line, counted from 0: what has nothing wrong, code can be made of. `exact`:
    nothing but one expression."""

    wrong: tuple[str, int] | None = None
    exact: bool = False
    needs: Needs = Needs()
    reads: tuple[Read, ...] = ()


def facts(source: str) -> Facts:
    return _short(source) if len(source) <= LONG_CHARS else _long(source)


@lru_cache(maxsize=SHORT_CACHE)
def _short(source: str) -> Facts:
    return _find(source)


@lru_cache(maxsize=LONG_CACHE)
def _long(source: str) -> Facts:
    return _find(source)


def _find(source: str) -> Facts:
    try:
        tree, found = surveyed(source)
        free = _free(tree, found)
    except Exception as error:
        message, line = fault(error)
        return Facts(wrong=(message, max(0, line - 1)))
    return Facts(
        exact=exact(tree) is not None, needs=_needs(found, free),
        reads=reads_of(found, free - FUNCTIONS.keys()),
    )


def _free(tree: nodes.Template, found: list[nodes.Node]) -> set[str]:
    """The names that come from outside. Without statements that define some, these are all names."""
    if any(isinstance(node, nodes.Stmt) and type(node) not in (nodes.Output, nodes.If) for node in found):
        return free_names(tree)
    return {node.name for node in found if isinstance(node, nodes.Name)}


def _needs(found: list[nodes.Node], names: set[str]) -> Needs:
    called = {node.node.name for node in found if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name)}
    names = names - (called & FUNCTIONS.keys())
    keys = _keys(found)
    bare = names.difference(_SPACES)
    read = {space: frozenset(keys[space]) if space in names else frozenset() for space in _SPACES}
    parts = {name: frozenset(keys[name]) for name in sorted(bare) if EVERYTHING not in keys[name]}
    return Needs(names=frozenset(bare), ctx=read["ctx"], workload=read["workload"], parts=parts)


def _keys(found: list[nodes.Node]) -> dict[str, set[str]]:
    """The first-level keys read of each name; a use of it that names no key is a use of everything."""
    keys: dict[str, set[str]] = defaultdict(set)
    named: set[int] = set()
    for node in found:
        owner = node.node if isinstance(node, nodes.Call) else None
        if isinstance(node, nodes.Call) and isinstance(owner, nodes.Getattr) and isinstance(owner.node, nodes.Name) \
                and owner.attr in METHODS[dict]:
            key = node.args[0] if owner.attr == "get" and node.args else None
            keys[owner.node.name].add(_constant(key))
            named |= {id(owner.node), id(owner)}
    for node in found:
        if isinstance(node, ACCESSES) and isinstance(node.node, nodes.Name) \
                and id(node) not in named:
            keys[node.node.name].add(node.attr if isinstance(node, nodes.Getattr) else _constant(node.arg))
            named.add(id(node.node))
    for node in found:
        if isinstance(node, nodes.Name) and id(node) not in named:
            keys[node.name].add(EVERYTHING)
    return keys


def _constant(key: nodes.Node | None) -> str:
    return key.value if isinstance(key, nodes.Const) and isinstance(key.value, str) else EVERYTHING
