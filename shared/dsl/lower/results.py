"""`result` on a step, also `output`, and `output_select` in its other shapes: what is kept of a result in the log, and
from what size on it is kept by reference. Where it is kept is the runtime's business, so a store is only warned about.
"""

from typing import Any

from shared.dsl.lower.nodes import Env, build, changed, get, is_list, is_map, listed, replaced, text_of, without
from shared.dsl.source.nodes import Node
from shared.dsl.templates.evaluate import is_template

INLINE_MAX_BYTES = 65_536  # what those who write `result` on a step count on, unless they say another size
_KEYS = ("store", "output_select", "inline_max_bytes")
_RESULT = "write output_select: [name] on the task"
_VALUE = ("for another value than its last task's write result: \"{{ … }}\" in a rule of that task: "
          "spec: {policy: {rules: [{else: {then: {do: continue, result: …}}}]}}")
_SELECT = "write output_select: [status, data.id], or {strategy: size_threshold, threshold_kb: 100}"


def lower_results(env: Env, node: Node) -> Node:
    """The step without `result`: its last task selects, and the size is a limit of the step."""
    limits: list[Node] = []
    tool = get(node, "tool")
    for word in ("result", "output"):
        if (result := get(node, word)) is not None:
            node = without(node, (word,))
            tool = _selecting(env, tool, _select(env, result, limits, word))
    if tool is not None:
        selected: list[Node] = []
        node = changed(node, {"tool": _each(env, tool, limits, selected)})
        if selected and get(node, "loop") is not None:
            env.warn(selected[0], "DSL903", "output_select changes nothing in a loop: its results are read as one list",
                     "select in the step that reads them")
    return _limited(node, limits[-1]) if limits else node


def _select(env: Env, result: Node, limits: list[Node], word: str) -> Node | None:
    """The paths that `result` names; `word` is what the author calls it."""
    if not is_map(result):
        env.error(result, "DSL203", f"{word} of a step must be a mapping", _VALUE if text_of(result) else _RESULT)
        return None
    for key, entry in result.value.items():
        if key not in _KEYS:
            known = f"known here: {', '.join(_KEYS)}"
            env.error(entry.key, "DSL201", f"unknown key {key[:60]!r} in {word}", f"{known}; {_VALUE}"
                      if is_template(text_of(entry.node)) else known)
    store, select, most = (get(result, key) for key in _KEYS)
    kind = get(store, "kind") if is_map(store) else store
    if kind is not None and kind.value != "auto":
        env.warn(kind, "DSL903", "large results are kept in the results stream, whatever store says",
                 "remove store, or add a task that stores the data where it is wanted")
    if most is not None or select is not None:
        limits.append(most if most is not None else build(result.position, INLINE_MAX_BYTES))
    return select


def _label(task: Node) -> str:
    """The label of `{label: {kind: …}}`."""
    if not is_map(task) or "kind" in task.value or len(task.value) != 1:
        return ""
    ((label, entry),) = task.value.items()
    return label if get(entry.node, "kind") is not None else ""


def _selecting(env: Env, tool: Node | None, select: Node | None) -> Node | None:
    """The tool whose last task selects: the result of a step is that of its last task."""
    if select is None or tool is None:
        return tool
    last = listed(tool)[-1] if is_list(tool) and tool.value else tool
    label = _label(last)
    body = get(last, label) if label else last
    if body is None or get(body, "kind") is None:
        return tool  # reported by the reader
    if get(body, "output_select") is not None:
        env.error(select, "DSL401", "output_select is given on the step and on its task", "keep one of the two")
    body = changed(body, {"output_select": select})
    put = changed(last, {label: body}) if label else body
    return Node(tool.position, [*tool.value[:-1], put]) if is_list(tool) else put


def _each(env: Env, tool: Node, limits: list[Node], selected: list[Node]) -> Node:
    if not is_list(tool):
        return _task(env, tool, limits, selected)
    return replaced(tool, [_task(env, each, limits, selected) for each in tool.value])


def _task(env: Env, task: Node, limits: list[Node], selected: list[Node]) -> Node:
    """`output_select: {strategy: size_threshold, threshold_kb}` selects nothing: it is about the size."""
    label, select = _label(task), get(task, "output_select")
    if label:
        return changed(task, {label: _task(env, task.value[label].node, limits, selected)})
    if select is None:
        return task
    if not is_map(select):
        selected.append(select)
        return task
    strategy, most = get(select, "strategy"), get(select, "threshold_kb")
    sized = most is not None and type(most.value) in (int, float) and most.value > 0
    known = set(select.value) <= {"strategy", "threshold_kb"}
    if not sized or not known or (strategy is not None and strategy.value != "size_threshold"):
        env.error(select, "DSL204", "output_select is a list of paths, or a size", _SELECT)
    else:
        assert most is not None
        size: Any = int(most.value * 1024)
        limits.append(build(most.position, size))
    return without(task, ("output_select",))


def _limited(node: Node, most: Node) -> Node:
    """`spec.policy.limits.max_payload_bytes` of the step, unless it has one."""
    spec = get(node, "spec") or build(most.position, {})
    policy = get(spec, "policy") or build(most.position, {})
    limits = get(policy, "limits") or build(most.position, {})
    if not (is_map(spec) and is_map(policy) and is_map(limits)):
        return node  # reported by the reader
    limits = changed(limits, {"max_payload_bytes": get(limits, "max_payload_bytes") or most})
    return changed(node, {"spec": changed(spec, {"policy": changed(policy, {"limits": limits})})})
