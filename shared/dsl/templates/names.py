"""The names a template reads without a fallback, with their lines. `x | default(…)` and `x is defined`
say that the author knows x may be missing. And the names that none of its blocks defines, found with one look at each
block: Jinja's own function for it makes the code of the template, and for that it looks through the body of a loop
again for every loop around it, so that the time for loops within loops grows with the square of their number."""

from collections.abc import Sequence

from jinja2 import nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.idtracking import VAR_LOAD_RESOLVE, Symbols
from msgspec import Struct

USES = (nodes.Filter, nodes.Test)
LOOP = "loop"
LOOP_IS_OURS = "Can't assign to special loop variable in for-loop target"  # as Jinja says it
ACCESSES = (nodes.Getattr, nodes.Getitem)
_FALLBACKS = ("default", "d", "defined", "undefined", "none")
SPACES = ("workload", "ctx", "args", "iter", "outcome", "event", "schedule", "message")
NOW = "_now"  # the time of the decision, as text; authors write `now()`


class Read(Struct, frozen=True):
    """`space` is empty for a bare name. `line` counts from 0. `called`: as a function."""

    name: str
    line: int
    space: str = ""
    called: bool = False


def reads_of(found: list[nodes.Node], free: set[str]) -> tuple[Read, ...]:
    """`found` are the nodes of a template, `free` the names that come from outside."""
    spared = _spared(found)
    cared_for = {node.name for node in found if isinstance(node, nodes.Name) and id(node) in spared}
    reads: dict[tuple[str, str], Read] = {}
    called = {id(node.node) for node in found if isinstance(node, nodes.Call)}
    for node in found:
        if isinstance(node, nodes.Name) and node.name in free and node.name not in cared_for:
            reads.setdefault(("", node.name), Read(node.name, node.lineno - 1, called=id(node) in called))
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


def free_names(tree: nodes.Template) -> set[str]:
    """TemplateSyntaxError for what no code can be made of: a loop that assigns to `loop`, and a name in the filter of a
    set block which is not known there."""
    symbols = Symbols()
    symbols.declare_parameter("self")
    symbols.analyze_node(tree)
    return _Search().within(tree.body, symbols)


class _Search:
    def __init__(self) -> None:
        self._names: set[str] = set()
        self._loops = 0

    def within(self, body: Sequence[nodes.Node], symbols: Symbols) -> set[str]:
        """A block with names of its own."""
        self._names.update(name for how, name in symbols.loads.values() if how == VAR_LOAD_RESOLVE)
        self._follow(body, symbols)
        return self._names

    def _follow(self, body: Sequence[nodes.Node], symbols: Symbols) -> None:
        for node in body:
            if isinstance(node, nodes.For):
                self._loop(node, symbols)
            elif isinstance(node, nodes.If):
                for part in (node, *node.elif_):
                    self._follow(part.body, symbols)
                self._follow(node.else_, symbols)
            elif isinstance(node, nodes.With | nodes.AssignBlock):
                inner = Symbols(symbols)
                inner.analyze_node(node)
                self.within(node.body, inner)
                if isinstance(node, nodes.AssignBlock) and node.filter is not None:
                    _check_filter(node.filter, inner)

    def _loop(self, node: nodes.For, symbols: Symbols) -> None:
        if not self._loops:
            _check_loop(node)
        self._loops += 1
        if node.test is not None:
            self._branch(node, "test", (), Symbols(symbols))
        inner = Symbols(symbols)
        inner.declare_parameter(LOOP)
        self._branch(node, "body", node.body, inner)
        if node.else_:
            self._branch(node, "else", node.else_, Symbols(symbols))
        self._loops -= 1

    def _branch(self, node: nodes.For, branch: str, body: Sequence[nodes.Node], symbols: Symbols) -> None:
        symbols.analyze_node(node, for_branch=branch)
        self.within(body, symbols)


def _check_loop(node: nodes.For) -> None:
    for name in node.find_all(nodes.Name):
        if name.ctx == "store" and name.name == LOOP:
            raise TemplateSyntaxError(LOOP_IS_OURS, name.lineno)


def _check_filter(node: nodes.Filter, symbols: Symbols) -> None:
    """Jinja does not count the names that only this filter reads."""
    for name in node.find_all(nodes.Name):
        if symbols.find_ref(name.name) is None:
            raise TemplateSyntaxError(
                f"the filter of a set block reads `{name.name}`, which is not known there: set it before", name.lineno)
