"""What the names of a step depend on beside the step itself: the tasks of other steps, which steps lead where, and what
the author calls data."""

from collections.abc import Iterator, Mapping, Set

from msgspec import Struct

from shared.dsl.lower.names import below_read
from shared.dsl.lower.nodes import Env, get, is_list, is_map, items, listed, text_of
from shared.dsl.lower.sugar import is_sugar
from shared.dsl.lower.tasks import split
from shared.dsl.source.nodes import Node
from shared.dsl.templates.evaluate import is_template

_DATA = ("workload", "set", "set_ctx", "set_iter", "vars", "spec")
_ARGS = ("args", "input")
_LEADING = ("next", "arcs", "case", "then", "else", "call", "step")


class Survey(Struct, frozen=True):
    """`data` are the names of values the author gives to all steps, `args` those that a step has by its own `args`, and
    `brought` those that arcs bring it. `tasks` are each step's tasks with their kinds, in order. `kept` are the tasks
    whose results other steps read, by step; `before` the steps that lead to a step."""

    data: frozenset[str]
    args: Mapping[str, Set[str]]
    brought: Mapping[str, Set[str]]
    tasks: Mapping[str, Mapping[str, str]]
    kept: Mapping[str, Set[str]]
    before: Mapping[str, tuple[str, ...]]

    def last_kind(self, step: str) -> str:
        """That of the task whose result is the step's."""
        return next(iter([*self.tasks.get(step, {}).values()][::-1]), "")


def survey(env: Env, root: Node) -> Survey:
    steps = {text_of(get(each, "step")): each for each in listed(get(root, "workflow")) if text_of(get(each, "step"))}
    tasks = {name: dict(tasks_of(env, name, get(step, "tool"))) for name, step in steps.items()}
    plain = {name for name, step in steps.items() if get(step, "loop") is None}
    read = {pair for text in texts(root) for pair in below_read(text, "results")}
    kept: dict[str, set[str]] = {}
    for name, task in read:
        if name in plain and task in tasks[name]:
            kept.setdefault(name, set()).add(task)
    before: dict[str, list[str]] = {}
    brought: dict[str, set[str]] = {}
    for name, step in steps.items():
        for target, names in leads(step).items():
            before.setdefault(target, []).append(name)
            brought.setdefault(target, set()).update(names)
    args = {name: _arguments(step) for name, step in steps.items()}
    return Survey(frozenset(_given(root)), args, brought, tasks, kept,
                  {name: tuple(each) for name, each in before.items()})


def tasks_of(env: Env, step: str, tool: Node | None) -> Iterator[tuple[str, str]]:
    """The names and kinds of a step's own tasks, without those in sugar."""
    if tool is not None and is_map(tool):
        yield text_of(get(tool, "name")) or f"{step}_task", kind_of(env, tool)
    for index, item in enumerate(listed(tool)):
        label, body = split(item, f"task_{index}") if is_map(item) else ("", item)
        if is_map(body) and not is_sugar(env, body):
            yield label, kind_of(env, body)


def kind_of(env: Env, body: Node) -> str:
    kind = text_of(get(body, "kind"))
    if kind != "workbook":
        return kind
    return text_of(get(env.workbook.get(text_of(get(body, "task") or get(body, "name"))), "kind"))


def texts(node: Node) -> Iterator[str]:
    """All templates below a node."""
    stack = [node]
    while stack:
        each = stack.pop()
        if isinstance(each.value, str) and is_template(each.value):
            yield each.value
        stack += [below for _, below in items(each)] + listed(each)


def _given(root: Node) -> Iterator[str]:
    stack = [root]
    while stack:
        node = stack.pop()
        for key, below in items(node):
            stack.append(below)
            if key in _DATA:
                yield from (name.rpartition(".")[2] for name, _ in items(below))
            elif key == "iterator":
                yield text_of(below)
        stack += listed(node)


def _arguments(node: Node | None) -> frozenset[str]:
    return frozenset(name for key in _ARGS for name, _ in items(get(node, key)))


def leads(step: Node) -> dict[str, set[str]]:
    """The steps that a step's `next` and `case` name, each with the names of what they bring it."""
    found: dict[str, set[str]] = {}
    for target, names in (*_leads(get(step, "next"), in_next=True), *_leads(get(step, "case"))):
        found.setdefault(target, set()).update(names)
    return found


def _leads(node: Node | None, brought: frozenset[str] = frozenset(), *, in_next: bool = False,
           ) -> Iterator[tuple[str, frozenset[str]]]:
    """The steps that a `next` or a `case` names, with the names of what it brings them."""
    if node is None:
        return
    if in_next and isinstance(node.value, str):
        yield node.value, brought
    elif is_list(node):
        for each in node.value:
            yield from _leads(each, in_next=in_next)
    for key, below in items(node):
        if key in _LEADING:
            more = _arguments(node) if key == "step" else frozenset()
            yield from _leads(below, more, in_next=key in ("next", "step"))
