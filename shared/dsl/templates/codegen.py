"""The Python code of a template: our own operators in place of Python's where a value could be large
or strange. The names it calls are given to the code in `template_compile`."""

import operator
from collections.abc import Callable
from typing import Any

from jinja2 import nodes
from jinja2.compiler import Frame
from jinja2.nativetypes import NativeCodeGenerator

_SIGNS = {
    "eq": "==", "ne": "!=", "lt": "<", "lteq": "<=", "gt": ">", "gteq": ">=", "in": "in", "notin": "not in",
}  # fmt: skip


# What the compiler puts around expressions of a template stands as an item access of a kind that no parser makes, so
# it has no name that a template could use.
INTERNAL = {"#steps": "steps(context, ", "#bind": "bound("}


def _binop(sign: str) -> Callable[["Generator", nodes.BinExpr, Frame], None]:
    def visit(self: "Generator", node: nodes.BinExpr, frame: Frame) -> None:
        self._call(f"binop(context, {sign!r}, ", frame, node.left, node.right)

    return visit


class Generator(NativeCodeGenerator):
    """Yields the values of outputs as they are; making them text is the renderer's part."""

    _has_blocks = False

    def visit_Template(self, node: nodes.Template, frame: Frame | None = None) -> None:
        self._has_blocks = node.find(nodes.AssignBlock) is not None
        super().visit_Template(node, frame)

    def visit_For(self, node: nodes.For, frame: Frame) -> None:
        """Jinja looks through all of a loop for blocks, which are not part of the language, and for an assignment to
        `loop`, which `free_names` has looked for: with loops within loops that takes long, and finds nothing."""
        vars(node)["find_all"] = lambda _kind: iter(())
        try:
            super().visit_For(node, frame)
        finally:
            del vars(node)["find_all"]

    def visit_AssignBlock(self, node: nodes.AssignBlock, frame: Frame) -> None:
        """Jinja looks only at the assignment of an expression: a block would write into any mapping of the scope."""
        if isinstance(node.target, nodes.NSRef):
            self.writeline(f"if not isinstance({frame.symbols.ref(node.target.name)}, Namespace):")
            self.indent()
            self.writeline('raise TemplateRuntimeError("cannot assign attribute on non-namespace object")')
            self.outdent()
        super().visit_AssignBlock(node, frame)

    def write_commons(self) -> None:
        super().write_commons()
        self.writeline("cond_expr_undefined = absent")
        if self._has_blocks:
            self.writeline("concat = lambda pieces: joined(context, pieces)")

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> Any:
        if isinstance(node, nodes.TemplateData):
            return node.data
        raise nodes.Impossible  # an exact expression keeps its type, so constants are not made text

    def visit_Getattr(self, node: nodes.Getattr, frame: Frame) -> None:
        self.write("named(context, ")
        self.visit(node.node, frame)
        self.write(f", {node.attr!r})")

    def visit_Call(self, node: nodes.Call, frame: Frame, forward_caller: bool = False) -> None:
        called = node.node
        if isinstance(called, nodes.Getattr):
            self._call("invoke(context, ", frame, called.node, end=f", {called.attr!r}")
        else:
            self._call("call(context, ", frame, called, end="")
        self.signature(node, frame)
        self.write(")")

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        if node.ctx in INTERNAL:
            self._call(INTERNAL[node.ctx], frame, node.node, node.arg)
            return
        cut = isinstance(node.arg, nodes.Slice)
        self._call("sliced(context, " if cut else "picked(context, ", frame, node.node, node.arg)

    def visit_Slice(self, node: nodes.Slice, frame: Frame) -> None:
        none = nodes.Const(None)
        self._call("slice(", frame, node.start or none, node.stop or none, node.step or none)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self._call("concatenated(context, [", frame, *node.nodes, end="])")

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:
        self.write("{")
        for pair in node.items:
            known = isinstance(pair.key, nodes.Const)  # of text or a number, as all constants are
            self._call("" if known else "check_key(", frame, pair.key, end="" if known else ")")
            self.write(": ")
            self.visit(pair.value, frame)
            self.write(", ")
        self.write("}")

    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:
        first = node.ops[0]
        if len(node.ops) == 1 and first.op in ("in", "notin"):
            self.write("(not " if first.op == "notin" else "(")
            self._call("within(context, ", frame, node.expr, first.expr)
            self.write(")")
            return
        # Comparing with a literal is cheap; of two unknown values both may be large.
        literal = [isinstance(side, nodes.Const) for side in (node.expr, *(op.expr for op in node.ops))]
        cheap = all(map(operator.or_, literal, literal[1:]))
        if len(node.ops) == 1 and not cheap:
            self._call(f"compared(context, {_SIGNS[first.op]!r}, ", frame, node.expr, first.expr)
            return
        start, end = ("(", ")") if cheap else ("weighed(context, ", ")")
        self._call("(" + start, frame, node.expr, end=end)
        for op in node.ops:
            self._call(f" {_SIGNS[op.op]} {start}", frame, op.expr, end=end)
        self.write(")")

    visit_Add, visit_Sub, visit_Mul = _binop("+"), _binop("-"), _binop("*")
    visit_Div, visit_FloorDiv, visit_Mod, visit_Pow = _binop("/"), _binop("//"), _binop("%"), _binop("**")

    def _call(self, start: str, frame: Frame, *args: nodes.Node, end: str = ")") -> None:
        self.write(start)
        for index, arg in enumerate(args):
            self.write(", " if index else "")
            self.visit(arg, frame)
        self.write(end)
