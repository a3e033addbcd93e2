"""Limits of what the formal dialect may ask the compiler to write out, checked before it is written."""

from shared.dsl.lower.nodes import Env, changed, get, is_list, listed
from shared.dsl.read.steps import MAX_TASKS
from shared.dsl.source.nodes import Node

MAX_FORMAL = 20       # rules of a case, branches of a choose, policies of a retry, sinks: each looks at the others
MAX_PROGRAM = 32 * 1024  # characters of one program; its tree takes hundreds of times as much
MAX_IN_PROGRAM = 100  # `{{ }}` in one program
MAX_COPIED = 5_000    # values copied out of the workbook, by all tasks that name one


def short_tool(env: Env, node: Node) -> Node:
    """The step with no more tasks than one may have; those beyond are reported and left out."""
    tool = get(node, "tool")
    if tool is None or not is_list(tool) or len(listed(tool)) <= MAX_TASKS:
        return node
    env.error(tool, "DSL801", f"{len(listed(tool))} tasks, over the limit of {MAX_TASKS}", "split the step")
    return changed(node, {"tool": Node(tool.position, listed(tool)[:MAX_TASKS])})


def short_lists(env: Env, node: Node) -> Node:
    """The step without the lists that are too long, which are reported."""
    for key in ("case", "retry", "sink"):
        found = get(node, key)
        if found is not None and too_long(env, found, key):
            node = changed(node, {key: None})
    return node


def too_long(env: Env, found: Node, what: str) -> bool:
    """Whether a list has more entries than it may; then it is reported."""
    if not is_list(found) or len(listed(found)) <= MAX_FORMAL:
        return False
    env.error(found, "DSL801", f"{len(listed(found))} entries of {what}, over the limit of {MAX_FORMAL}",
              "move some into a step of their own")
    return True


def may_copy(env: Env, task: Node, entry: Node) -> bool:
    """Counts a task of the workbook that is to be copied; reported once when it is too much."""
    fits = env.copied <= MAX_COPIED
    env.copied += _size(entry)
    if fits and env.copied > MAX_COPIED:
        env.error(task, "DSL801", f"more than {MAX_COPIED} values copied from the workbook",
                  "make the task smaller, or move it into a playbook of its own")
    return env.copied <= MAX_COPIED


def _size(node: Node) -> int:
    count, stack = 0, [node]
    while stack:
        each = stack.pop()
        count += 1
        if isinstance(each.value, dict):
            stack += [entry.node for entry in each.value.values()]
        elif isinstance(each.value, list):
            stack += each.value
    return count
