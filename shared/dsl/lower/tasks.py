"""Tasks of the formal dialect and of today's playbooks: `workbook` references, `input`, `set`, tool keys
under `spec`, other names for keys, and rules with the words people use."""

from typing import Any

from shared.dsl.lower.build import ERROR, directive, named, otherwise, own_keys, renamed_task, rule, with_rules
from shared.dsl.lower.commands import lower_commands
from shared.dsl.lower.name_meanings import EVERYWHERE, in_rules, patches
from shared.dsl.lower.names import renamed_node
from shared.dsl.lower.nodes import (
    Env,
    build,
    changed,
    get,
    is_list,
    is_map,
    items,
    listed,
    replaced,
    text_of,
    without,
)
from shared.dsl.lower.program import lower_program
from shared.dsl.lower.sugar import SUGAR, is_sugar, lower_sugar
from shared.dsl.lower.task_retry import retried
from shared.dsl.lower.today.shapes import todays_tool, with_input
from shared.dsl.lower.workbook import inlined
from shared.dsl.source.nodes import Entry, Node


def lower_tool(env: Env, step: str, tool: Node) -> Node:
    """The tool with every task lowered; itself when all are canonical."""
    if is_map(tool):
        found = lower_task(env, step, tool, f"{step}_task", "")
        if len(found) == 1 and not is_sugar(env, found[0]):
            return found[0]
        return Node(tool.position, found)
    if not is_list(tool):
        return tool
    return replaced(tool, lower_list(env, step, tool.value))


def lower_list(env: Env, step: str, tasks: list[Node]) -> list[Node]:
    found: list[Node] = []
    before = ""
    grows = False
    for index, item in enumerate(tasks):
        if not is_map(item):
            found.append(item)
            continue
        label, body = split(item, f"task_{index}")
        new = lower_task(env, step, body, label, before)
        before, grows = label, grows or len(new) > 1
        if len(new) == 1 and new[0] is body:
            found.append(item)
        elif len(new) == 1 and body is not item:
            found.append(Node(item.position, {label: Entry(item.value[label].key, new[0])}))
        else:
            found += new
        if grows and get(found[-1], "name") is None and get(found[-1], "kind") is not None:
            found[-1] = named(found[-1], label)  # positions have changed, names must not
    return found


def split(item: Node, default: str) -> tuple[str, Node]:
    """The label of a list item, and its body."""
    if get(item, "name") is not None:
        return text_of(get(item, "name")) or default, item
    if "kind" not in item.value and len(item.value) == 1:
        ((label, entry),) = item.value.items()
        if is_map(entry.node) and label not in SUGAR:
            return label, entry.node
    return default, item


def lower_task(env: Env, step: str, body: Node, label: str, before: str) -> list[Node]:
    sugar = next((key for key in SUGAR if key in body.value), None)
    if sugar is not None and "kind" not in body.value:
        return lower_sugar(env, step, body, sugar, lower_list)
    task = with_input(body)
    if text_of(get(task, "kind")) == "workbook":
        first, body = inlined(env, task, label)
        return [*first, named(_plain(env, step, body, before), label)]
    return [_plain(env, step, task, before)]


def _plain(env: Env, step: str, task: Node, before: str) -> Node:
    task = own_keys(env, retried(env, step, todays_tool(env, _unlabelled(env, task))))
    task = renamed_task(env, lower_program(env, lower_commands(env, task)), EVERYWHERE)
    rules = get(task, "spec", "policy", "rules")
    if rules is not None and is_list(rules):
        put = replaced(rules, [_rule(env, each, before) for each in rules.value])
        spec, policy = get(task, "spec"), get(task, "spec", "policy")
        assert spec is not None
        assert policy is not None
        task = changed(task, {"spec": changed(spec, {"policy": changed(policy, {"rules": put})})})
    return _sets(env, task)


def _unlabelled(env: Env, task: Node) -> Node:
    """A sub-playbook is found by its path alone."""
    if text_of(get(task, "kind")) != "playbook" or get(task, "task") is None or get(task, "path") is None:
        return task
    env.warn(task.value["task"].key, "DSL903", "task changes nothing: path names the playbook", "remove it")
    return without(task, ("task",))


def _rule(env: Env, node: Node, before: str) -> Node:
    if not is_map(node):
        return node
    node = renamed_node(node, in_rules(env.edition))
    fallback = get(node, "else")
    if fallback is not None and is_map(fallback) and get(fallback, "then") is None and get(fallback, "do") is not None:
        fallback = build(fallback.position, {"then": fallback})
    if fallback is not None:
        then = get(fallback, "then")
        if then is not None and is_map(then):
            fallback = changed(fallback, {"then": _then(then, before)})
        return changed(node, {"else": fallback, **_own_then(node, before)})
    return changed(node, _own_then(node, before))


def _own_then(node: Node, before: str) -> dict[str, Node | None]:
    then = get(node, "then")
    return {"then": _then(then, before)} if then is not None and is_map(then) else {}


def _then(then: Node, before: str) -> Node:
    backoff, to, given = get(then, "backoff"), get(then, "to"), get(then, "set")
    put: dict[str, Node | None] = {}
    if backoff is not None and backoff.value == "fixed":
        put["backoff"] = build(backoff.position, "none")
    if to is not None and to.value == "previous" and before:
        put["to"] = build(to.position, before)
    if given is not None and isinstance(given.value, dict | list):
        put |= {"set": None, **_patched(then, *patches(given))}
    return changed(then, put)


def _patched(node: Node, to_ctx: dict[str, Node], to_iter: dict[str, Node]) -> dict[str, Node | None]:
    found: dict[str, Node | None] = {}
    for key, patch in (("set_ctx", to_ctx), ("set_iter", to_iter)):
        if patch:
            own = dict(items(get(node, key)))
            found[key] = build(node.position, {**own, **patch})
    return found


def _sets(env: Env, task: Node) -> Node:
    """`set`, `set_ctx`, `set_iter` on a task: written when it succeeded."""
    to_ctx, to_iter = patches(get(task, "set"))
    for key, patch in (("set_ctx", to_ctx), ("set_iter", to_iter)):
        if is_map(get(task, key)):
            patch |= dict(items(get(task, key)))
    if not to_ctx and not to_iter:
        return task
    names = in_rules(env.edition)
    task = without(task, ("set", "set_ctx", "set_iter"))
    put: dict[str, Any] = {"set_ctx": {key: renamed_node(value, names) for key, value in to_ctx.items()},
                           "set_iter": {key: renamed_node(value, names) for key, value in to_iter.items()}}
    rules = get(task, "spec", "policy", "rules")
    if rules is None:
        return with_rules(task, [], [rule(ERROR, directive("fail")), otherwise(directive("continue", **put))])
    return with_rules(without_rules(task), [], [_also(each, put) for each in listed(rules)])


def without_rules(task: Node) -> Node:
    spec, policy = get(task, "spec"), get(task, "spec", "policy")
    assert spec is not None
    assert policy is not None
    return changed(task, {"spec": changed(spec, {"policy": without(policy, ("rules",))})})


def _also(node: Node, put: dict[str, Any]) -> Any:
    """A rule that continues, with what the task sets."""
    owner = get(node, "else") if get(node, "else", "then") is not None else node
    then = get(owner, "then")
    if owner is None or then is None or text_of(get(then, "do")) not in ("continue", "break", "jump"):
        return node
    patched = changed(then, _patched(then, put["set_ctx"], put["set_iter"]))
    owner = changed(owner, {"then": patched})
    return owner if owner.value is node.value or get(node, "else", "then") is None else changed(node, {"else": owner})
