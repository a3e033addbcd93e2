"""What can be said of a condition before anything runs: true, false, or unknown (None).

Known are literals, the name of the boundary event, whether it carries an error, and the status of an
outcome. Two conditions that contradict each other are never true at once."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from jinja2 import nodes

from shared.dsl.templates.compiler import CACHE, parse
from shared.dsl.templates.needs import names_used
from shared.events.aliases import BOUNDARY

Known = Mapping[tuple[str, str], frozenset[str] | bool]
FAILED = "step.failed"
NOTHING: Known = {}
_CONTRARY = {
    "eq": ("ne", "lt", "gt"), "ne": ("eq",), "lt": ("gteq", "gt", "eq"), "gt": ("lteq", "lt", "eq"),
    "lteq": ("gt",), "gteq": ("lt",), "in": ("notin",), "notin": ("in",),
}  # fmt: skip


def fires(when: Any, event: str) -> bool | None:
    """Whether an arc with this `when` takes the event."""
    if when is None or (event == FAILED and not reads_event(when)):
        return event != FAILED
    return truth(when, {("event", "name"): BOUNDARY[event], ("event", "error"): event == FAILED})


def truth(when: Any, known: Known = NOTHING) -> bool | None:
    if not isinstance(when, str):
        return bool(when)
    found = expression(when)
    return None if found is None else _truth(found, known)


@lru_cache(maxsize=CACHE)
def expression(text: str) -> nodes.Expr | None:
    """The one expression of a condition; None for a template of blocks, or one that does not parse."""
    try:
        body = parse(text.strip()).body
    except Exception:  # reported elsewhere, with its line
        return None
    if len(body) != 1 or not isinstance(body[0], nodes.Output) or len(body[0].nodes) != 1:
        return None
    found = body[0].nodes[0]
    return None if isinstance(found, nodes.TemplateData) else found


def _truth(node: nodes.Node, known: Known) -> bool | None:
    match node:
        case nodes.Const():
            return bool(node.value)
        case nodes.Not():
            inner = _truth(node.node, known)
            return None if inner is None else not inner
        case nodes.And():
            return _both(_truth(node.left, known), _truth(node.right, known), False)
        case nodes.Or():
            return _both(_truth(node.left, known), _truth(node.right, known), True)
        case nodes.Compare():
            return _compared(node, known)
    fact = known.get(_dotted(node))
    return fact if isinstance(fact, bool) else None


def _both(left: bool | None, right: bool | None, decides: bool) -> bool | None:
    """`and` is decided by one False, `or` by one True."""
    if decides in (left, right):
        return decides
    return None if left is None or right is None else not decides


def _compared(node: nodes.Compare, known: Known) -> bool | None:
    if len(node.ops) != 1:
        return None
    op, left, right = node.ops[0].op, node.expr, node.ops[0].expr
    if op in ("eq", "ne") and isinstance(left, nodes.Const):
        left, right = right, left
    fact = known.get(_dotted(left))
    if not isinstance(fact, frozenset):
        return None
    if op in ("eq", "ne") and isinstance(right, nodes.Const):
        return (right.value in fact) == (op == "eq")
    if op in ("in", "notin") and isinstance(right, nodes.List | nodes.Tuple):
        values = [item.value if isinstance(item, nodes.Const) else None for item in right.items]
        return None if None in values else any(value in fact for value in values) == (op == "in")
    return None


def _dotted(node: nodes.Node) -> tuple[str, str]:
    if isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Name):
        return node.node.name, node.attr
    return "", ""


def constants(when: str, owner: tuple[str, str]) -> set[str]:
    """The texts that a condition compares `owner[0].owner[1]` with."""
    found = expression(when)
    if found is None or owner[1] not in when:
        return set()
    texts: set[str] = set()
    for node in [found, *found.find_all(nodes.Compare)]:
        if not isinstance(node, nodes.Compare) or len(node.ops) != 1:
            continue
        sides = node.expr, node.ops[0].expr
        is_text_search = node.ops[0].op in ("in", "notin") and _dotted(sides[1]) == owner  # 'error' in event.name
        if owner not in map(_dotted, sides) or is_text_search:
            continue
        for side in sides:
            items = side.items if isinstance(side, nodes.List | nodes.Tuple) else [side]
            texts |= {item.value for item in items if isinstance(item, nodes.Const) and isinstance(item.value, str)}
    return texts


def contradict(first: Any, second: Any) -> bool:
    """Whether two conditions can never be true at once, seen from their text alone."""
    if not isinstance(first, str) or not isinstance(second, str):
        return first is False or second is False
    one, other = expression(first), expression(second)
    if one is None or other is None:
        return False
    return any(_contrary(a, b) for a in _conjuncts(one) for b in _conjuncts(other))


def is_of_success(when: str) -> bool:
    """Whether the condition asks, among all that must hold, that there is no error."""
    found = expression(when)
    return found is not None and any(
        isinstance(each, nodes.Test) and each.name == "none" and _dotted(each.node) == ("event", "error")
        for each in _conjuncts(found))


def _conjuncts(node: nodes.Node) -> list[nodes.Node]:
    if isinstance(node, nodes.And):
        return [*_conjuncts(node.left), *_conjuncts(node.right)]
    return [node]


def _contrary(one: nodes.Node, other: nodes.Node) -> bool:
    for this, that in ((one, other), (other, one)):
        if isinstance(this, nodes.Not) and this.node == that:
            return True
    if not isinstance(one, nodes.Compare) or not isinstance(other, nodes.Compare) or one.expr != other.expr:
        return False
    if len(one.ops) != 1 or len(other.ops) != 1:
        return False
    left, right = one.ops[0], other.ops[0]
    if left.op == right.op == "eq" and isinstance(left.expr, nodes.Const) and isinstance(right.expr, nodes.Const):
        return bool(left.expr.value != right.expr.value)
    return left.expr == right.expr and right.op in _CONTRARY.get(left.op, ())


def reads_event(when: Any) -> bool:
    """Whether the condition looks at what happened, and so is meant for a failure too."""
    return isinstance(when, str) and "event" in when and "event" in names_used(when).names
