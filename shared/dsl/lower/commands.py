"""Playbooks that read `command_0`, `command_1` … of a SQL task want the result of each of its statements."""

import re
from collections.abc import Iterator

from shared.dsl.lower.nodes import Env, build, changed, get, text_of
from shared.dsl.source.nodes import Node

_READS = re.compile(r"\bcommand_\d+\b")


def reads_commands(root: Node) -> bool:
    return any("command_" in text and _READS.search(text) for text in _texts(root))


def lower_commands(env: Env, task: Node) -> Node:
    tool = env.kinds.get(text_of(get(task, "kind")))
    if not env.commands or tool is None or "results" not in tool.keys or "results" in task.value:
        return task
    if not any(key in task.value for key in ("command", "query", "script")):
        return task
    return changed(task, {"results": build(task.position, "all")})


def _texts(node: Node) -> Iterator[str]:
    if isinstance(node.value, dict):
        for entry in node.value.values():
            yield from _texts(entry.node)
    elif isinstance(node.value, list):
        for each in node.value:
            yield from _texts(each)
    elif isinstance(node.value, str):
        yield node.value
