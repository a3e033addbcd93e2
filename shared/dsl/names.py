"""Which names a step's templates can read, so that a command carries only those."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from jinja2 import meta, nodes

from shared.dsl.plan import EVERYTHING, Needs
from shared.dsl.template_compile import CACHE, parse
from shared.dsl.template_data import METHODS
from shared.dsl.template_methods import FUNCTIONS

_SPACES = ("ctx", "workload")  # namespaces of which single keys are carried
_NOTHING = Needs()


def names_used(value: Any) -> Needs:
    """What the templates in a value tree need. A text that does not parse needs nothing here: the
    compiler's `check` reports it."""
    found = [_of_text(text) for text in _texts(value) if "{{" in text or "{%" in text]
    if not found:
        return _NOTHING
    return Needs(
        names=frozenset().union(*(need.names for need in found)),
        ctx=frozenset().union(*(need.ctx for need in found)),
        workload=frozenset().union(*(need.workload for need in found)),
    )


def _texts(value: Any) -> Iterator[str]:
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            yield node
        elif isinstance(node, dict):
            stack.extend(node.values())
        elif isinstance(node, list | tuple):
            stack.extend(node)


@lru_cache(maxsize=CACHE)
def _of_text(source: str) -> Needs:
    try:
        tree = parse(source)
        names = meta.find_undeclared_variables(tree)
    except Exception:  # whatever is wrong with the text, `check` says it with its line
        return _NOTHING
    called = {call.node.name for call in tree.find_all(nodes.Call) if isinstance(call.node, nodes.Name)}
    names -= {name for name in called if name in FUNCTIONS}
    keys = {space: _keys(tree, space) if space in names else frozenset() for space in _SPACES}
    return Needs(names=frozenset(names - set(_SPACES)), ctx=keys["ctx"], workload=keys["workload"])


def _keys(tree: nodes.Template, space: str) -> frozenset[str]:
    """The first-level keys of a namespace; a use of it that names no key is a use of everything."""
    keys: set[str] = set()
    named: set[int] = set()
    for call in tree.find_all(nodes.Call):
        owner = call.node
        if isinstance(owner, nodes.Getattr) and _is(owner.node, space) and owner.attr in METHODS[dict]:
            key = call.args[0] if owner.attr == "get" and call.args else None
            keys.add(key.value if isinstance(key, nodes.Const) and isinstance(key.value, str) else EVERYTHING)
            named |= {id(owner.node), id(owner)}
    for access in tree.find_all((nodes.Getattr, nodes.Getitem)):
        assert isinstance(access, nodes.Getattr | nodes.Getitem)
        if _is(access.node, space) and id(access) not in named:
            keys.add(_key(access))
            named.add(id(access.node))
    whole = any(_is(name, space) and id(name) not in named for name in tree.find_all(nodes.Name))
    return frozenset(keys | {EVERYTHING}) if whole else frozenset(keys)


def _is(node: nodes.Node, name: str) -> bool:
    return isinstance(node, nodes.Name) and node.name == name


def _key(access: nodes.Getattr | nodes.Getitem) -> str:
    if isinstance(access, nodes.Getattr):
        return access.attr
    key = access.arg
    return key.value if isinstance(key, nodes.Const) and isinstance(key.value, str) else EVERYTHING
