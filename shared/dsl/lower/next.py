"""`next` as text or a list (FS §9) to arcs, and the arcs of a `case` (FS §8)."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from shared.dsl.lower.name_meanings import IN_ARCS, IN_COND
from shared.dsl.lower.names import Names, asks_what_happened, expression, free_names, renamed_node, rewrite, written_of
from shared.dsl.lower.nodes import (
    Env,
    build,
    changed,
    get,
    is_list,
    is_map,
    items,
    listed,
    renamed,
    replaced,
    text_of,
)
from shared.dsl.model.texts import Text
from shared.dsl.source.nodes import Node, Position
from shared.dsl.templates.conditions import is_of_success, reads_event
from shared.dsl.templates.evaluate import is_template

_CASE = 'write case: [{when: "{{ … }}", then: {next: [{step: …}]}}] on the step, and next: for the rest'
_SHAPE = "write next: <step>, or next: [{step: …, args: {…}}]"


class Target(Struct, frozen=True):
    """A step to go to, with the arguments it gets."""

    position: Position
    step: Node
    args: Node | None
    set: Node | None = None


def is_router(node: Node | None) -> bool:
    return is_map(node) and (get(node, "arcs") is not None or get(node, "spec") is not None)


def targets(env: Env, node: Node, names: Names) -> list[Target]:
    """The steps a `next` in one of its short shapes leads to."""
    found = []
    for each in listed(node) if is_list(node) else [node]:
        if isinstance(each.value, str):
            found.append(Target(each.position, each, None))
        elif is_map(each):
            found += _target(env, each, names)
        else:
            env.error(each, "DSL203", "next must name a step", _SHAPE)
    return found


def _target(env: Env, node: Node, names: Names) -> list[Target]:
    node = renamed(node, "input", "args")
    for key in ("when", "then", "else"):
        if get(node, key) is not None:
            env.error(node.value[key].key, "DSL301", f"next in a list has no {key} (FS §9.2)", _CASE)
            return []
    for key in node.value:
        if key not in ("step", "args", "set"):
            env.error(node.value[key].key, "DSL201", f"unknown key {key!r} in next", "known here: step, args, set")
    step, args, patch = get(node, "step"), get(node, "args"), get(node, "set")
    if step is None:
        env.error(node, "DSL202", "the item of next has no step", "add step: <name>")
        return []
    return [Target(node.position, step, renamed_node(args, names) if args is not None else None,
                   renamed_node(patch, names) if patch is not None else None)]


def arc(target: Target, when: Any = None) -> Node:
    found: dict[str, Any] = {"step": target.step}
    if when is not None:
        found["when"] = when
    if target.args is not None:
        found["args"] = target.args
    if target.set is not None:
        found["set"] = target.set
    return build(target.position, found)


def router(position: Position, arcs: list[Node], *, inclusive: bool) -> Node:
    spec = {"spec": {"mode": "inclusive"}} if inclusive else {}
    return build(position, {**spec, "arcs": Node(position, arcs)})


def fan_out(env: Env, found: list[Target], label: str, what: str) -> tuple[Target, Node | None]:
    """One target that stands for several: itself, or a generated step with inclusive arcs. Arguments are
    evaluated on the way into it, because the event they read is gone behind it."""
    if len(found) == 1:
        return found[0], None
    position = found[0].position
    name = env.label(label, position, what)
    args: dict[str, Any] = {}
    arcs: list[Node] = []
    for index, target in enumerate(found):
        handed = {}
        for key, value in items(target.args):
            args[f"to{index}_{key}"] = value
            handed[key] = "{{ args['to" + f"{index}_{key}" + "'] }}"
        if target.set is not None:
            env.error(target.set, "DSL301", "of several steps one rule leads to none can set", "set in the rule itself")
        arcs.append(build(target.position, {"step": target.step, **({"args": handed} if handed else {})}))
    step = build(position, {"step": name, "next": router(position, arcs, inclusive=True)})
    return Target(position, build(position, name), build(position, args) if args else None), step


def _conditioned(arc_: Node) -> Node:
    """`cond: <expression>` is `when` without its braces; a bare `exit_code` is that of the step's program."""
    given = get(arc_, "cond")
    if given is None or get(arc_, "when") is not None or not isinstance(given.value, str | bool):
        return arc_
    text = given.value if isinstance(given.value, bool) or is_template(given.value) else f"{{{{ {given.value} }}}}"
    when = Node(given.position, text if isinstance(text, bool) else rewrite(text, IN_COND), given.style)
    return changed(renamed(arc_, "cond", "when"), {"when": when})


def _of_its_end(env: Env, written: Node, arc_: Node) -> Node:
    """An arc whose condition is about the step's data takes successes alone, also where the data is the event's."""
    cond, when = get(written, "cond"), get(arc_, "when")
    given = get(written, "when") or cond
    if given is None or when is None or not isinstance(when.value, str) or env.edition == 1:
        return arc_
    text, inner = written_of(text_of(given)), expression(when.value)
    text = text if is_template(text) else f"{{{{ {text} }}}}"
    # The exit code is that of a failure too; a `cond` that was lowered before is a `when` that reads it there.
    is_code = given is cond or "event.error.exit_code" in text_of(given)
    asks = asks_what_happened(text) or (is_code and "exit_code" in free_names(text))
    if inner is None or asks or not reads_event(when.value) or is_of_success(when.value):
        return arc_
    guarded = Text("{{ event.error is none and (" + inner + ") }}", written_of(when.value))
    return changed(arc_, {"when": Node(when.position, guarded, when.style)})


def _of_the_event(env: Env, names: Names) -> dict[str, str]:
    """`response` and its like are what the event carries, where the playbook has nothing of that name."""
    return {name: names.plain[name] for name in ("response", "result", "error")
            if name in names.plain and name not in env.keys and name not in env.taken}


def plain_next(env: Env, node: Node, names: Names) -> Node:
    """`next` without a `case`: short shapes become a router, a router only loses its aliases."""
    if is_router(node):
        arcs = get(node, "arcs")
        if not is_list(arcs):
            return node
        assert arcs is not None
        given = _of_the_event(env, names)
        here = replace(IN_ARCS, plain={**IN_ARCS.plain, **given}, dotted={**IN_ARCS.dotted, **{
            pair: text for pair, text in names.dotted.items() if pair[0] == "response" and "response" in given}},
            tested={name: text for name, text in names.tested.items() if name in given})
        new = [_of_its_end(env, each, renamed_node(renamed(_conditioned(each), "input", "args"), here))
               if is_map(each) else each for each in arcs.value]
        return changed(node, {"arcs": replaced(arcs, new)})
    if not isinstance(node.value, str | list) and get(node, "step") is None:
        return node  # reported by the reader
    found = targets(env, node, names)
    return router(node.position, [arc(each) for each in found], inclusive=len(found) > 1)
