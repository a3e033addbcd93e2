"""Authoring sugar of V10 §14: `choose`, `while`, `until` in a tool list become tasks with jumps. Each
has a merge point of its own, so no branch falls through into the next."""

from collections.abc import Callable
from typing import Any

from shared.dsl.lower.bounds import too_long
from shared.dsl.lower.build import directive, named, noop, otherwise, rule
from shared.dsl.lower.name_meanings import EVERYWHERE
from shared.dsl.lower.names import renamed_node
from shared.dsl.lower.nodes import Env, get, is_list, is_map, listed, text_of
from shared.dsl.model.plan import Origin
from shared.dsl.source.nodes import Node, Position

SUGAR = ("choose", "while", "until")
_CHOOSE = 'write choose: [{when: "{{ … }}", then: [tasks]}, {else: [tasks]}]'
_LOOP = 'write while: {when: "{{ … }}", do: [tasks]}'
_KEEP: dict[str, Any] = {"result": "_prev"}

Lower = Callable[[Env, str, list[Node]], list[Node]]


def is_sugar(env: Env, body: Node) -> bool:
    """`until` of a wait is a key of its tool; before the fourth edition it was taken for the sugar in some places."""
    return any(key in body.value for key in SUGAR) and ("kind" not in body.value or env.edition < 4)


def lower_sugar(env: Env, step: str, item: Node, kind: str, lower: Lower) -> list[Node]:
    given = text_of(get(item, "name"))
    body = get(item, kind)
    assert body is not None
    for key in item.value:
        if key not in ("name", "desc", kind):
            env.error(item.value[key].key, "DSL201", f"unknown key {key!r} beside {kind}", "known here: name, desc")
    what = f"{'an' if kind == 'until' else 'a'} {kind} of step {step}"
    label = given or env.label(f"{step}_{kind}", item.position, what)
    env.labels[label] = Origin(item.position.line, what)
    if kind == "choose":
        return _choose(env, step, body, label, lower)
    return _loop(env, step, body, label, kind, lower)


def _jump(position: Position, name: str, to: str) -> Node:
    return noop(position, name, [otherwise(directive("jump", to=to, **_KEEP))])


def _choose(env: Env, step: str, body: Node, label: str, lower: Lower) -> list[Node]:
    if not is_list(body) or not body.value:
        env.error(body, "DSL501", "choose is a list of rules", _CHOOSE)
        return [noop(body.position, label, [otherwise(directive("continue", **_KEEP))])]
    if too_long(env, body, "choose"):
        return [noop(body.position, label, [otherwise(directive("continue", **_KEEP))])]
    end = env.label(f"{label}_end", body.position, f"where the branches of {_called(env, label)} meet")
    rules: list[dict[str, Any]] = []
    branches: list[Node] = []
    for index, each in enumerate(listed(body)):
        when, tasks = _branch(env, each)
        if tasks is None:
            continue
        branch = _tasks(env, step, tasks, f"{label}_{index + 1}", lower)
        to = _first(branch) if branch else end
        then = directive("jump", to=to, **_KEEP)
        rules.append(rule(when, then) if when is not None else otherwise(then))
        if branch:
            what = f"the end of a branch of {_called(env, label)}"
            leave = env.label(f"{label}_{index + 1}_end", each.position, what)
            branches += [*branch, _jump(each.position, leave, end)]
    if not rules or "else" not in rules[-1]:
        rules.append(otherwise(directive("jump", to=end, **_KEEP)))
    last = noop(body.position, end, [otherwise(directive("continue", **_KEEP))])
    return [noop(body.position, label, rules), *branches, last]


def _branch(env: Env, node: Node) -> tuple[Node | None, Node | None]:
    when, then, fallback = get(node, "when"), get(node, "then"), get(node, "else")
    if when is None and fallback is not None:
        then = get(fallback, "then") or (fallback if fallback.value is not None else then)
    if then is None or (when is None and fallback is None):
        env.error(node, "DSL501", "a branch of choose has when and then, or else", _CHOOSE)
        return None, None
    return renamed_node(when, EVERYWHERE) if when is not None else None, then


def _loop(env: Env, step: str, body: Node, label: str, kind: str, lower: Lower) -> list[Node]:
    when, tasks = get(body, "when"), get(body, "do") or get(body, "then") or get(body, "tool")
    if when is None or tasks is None:
        env.error(body, "DSL501", f"{kind} needs when and do", _LOOP.replace("while", kind))
        return [noop(body.position, label, [otherwise(directive("continue", **_KEEP))])]
    when = renamed_node(when, EVERYWHERE)
    inner = _tasks(env, step, tasks, f"{label}_do", lower)
    end = env.label(f"{label}_end", body.position, f"the end of {_called(env, label)}")
    last = noop(body.position, end, [otherwise(directive("continue", **_KEEP))])
    leave, again = directive("jump", to=end, **_KEEP), directive("continue", **_KEEP)
    if kind == "while":
        bottom = env.label(f"{label}_back", body.position, f"back to the test of {_called(env, label)}")
        test = noop(body.position, label, [rule(when, again), otherwise(leave)])
        return [test, *inner, _jump(body.position, bottom, label), last]
    check = env.label(f"{label}_check", body.position, f"the test of {_called(env, label)}")
    back = directive("jump", to=_first(inner) or label, **_KEEP)
    test = noop(body.position, check, [rule(when, leave), otherwise(back)])
    return [noop(body.position, label, [otherwise(again)]), *inner, test, last]


def _tasks(env: Env, step: str, node: Node, label: str, lower: Lower) -> list[Node]:
    """The tasks of a branch, each with a name that is its own in the whole step."""
    given = listed(node) if is_list(node) else [node]
    found = []
    for index, each in enumerate(given):
        if not is_map(each):
            env.error(each, "DSL203", "a task must be a mapping", "write - name: …, kind: …")
        elif get(each, "name") is None and get(each, "kind") is not None:
            found.append(named(each, env.label(f"{label}_task_{index}", each.position, f"a task of step {step}")))
        else:
            found.append(each)
    return lower(env, step, found)


def _called(env: Env, label: str) -> str:
    """What the author knows it by: the label may be made up."""
    return env.labels[label].what


def _first(tasks: list[Node]) -> str:
    if not tasks:
        return ""
    name = text_of(get(tasks[0], "name"))
    return name or (next(iter(tasks[0].value)) if len(tasks[0].value) == 1 else "")
