"""The names of a template that none of its blocks defines, found with one look at each block.

Jinja has a function for it, which makes the code of the template. For that it looks through the body of a loop again
for every loop around it, and the time for loops within loops grows with the square of their number."""

from collections.abc import Sequence

from jinja2 import nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.idtracking import VAR_LOAD_RESOLVE, Symbols

LOOP = "loop"
LOOP_IS_OURS = "Can't assign to special loop variable in for-loop target"  # as Jinja says it


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
