"""Programs of today's playbooks that look names up in `context`, which stands for all a template sees: what they
look up is handed over, with the default they give."""

import ast
import json
from typing import Any

CONTEXT = "context"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def looked_up(tree: ast.Module) -> dict[str, str] | None:
    """The keys read from `context`, each with the template that finds it; None when the program has no such name,
    or one of its own."""
    nodes = list(ast.walk(tree))
    read = [node for node in nodes if isinstance(node, ast.Name) and node.id == CONTEXT]
    if not read or any(not isinstance(node.ctx, ast.Load) for node in read) or _is_own(nodes):
        return None
    found: dict[str, str] = {}
    for node in nodes:
        key, template = _lookup(node)
        if key.isidentifier():
            found.setdefault(key, template)
    return found


def _is_own(nodes: list[ast.AST]) -> bool:
    """Whether the program imports it, or a function other than `main` has a parameter of that name."""
    for node in nodes:
        if isinstance(node, ast.alias) and (node.asname or node.name) == CONTEXT:
            return True
        if isinstance(node, _FUNCTIONS) and getattr(node, "name", "") != "main":
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            if any(each.arg == CONTEXT for each in given):
                return True
    return False


def _lookup(node: ast.AST) -> tuple[str, str]:
    """`context.get(key, default)` or `context[key]`."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="context"), attr="get"),
                      args=[ast.Constant(value=str(key)), *rest], keywords=[]):
            return key, "{{ " + key + " | default(" + _literal(rest[0] if rest else None) + ") }}"
        case ast.Subscript(value=ast.Name(id="context"), slice=ast.Constant(value=str(key))):
            return key, "{{ " + key + " }}"
    return "", ""


def _literal(node: ast.expr | None) -> str:
    """A default as a template writes it; what is no literal is left to the program, as nothing."""
    try:
        value: Any = ast.literal_eval(node) if node is not None else None
        text = json.dumps(value)
    except (ValueError, TypeError, RecursionError):
        return "none"
    return "none" if value is None or "null" in text else text
