"""Shapes that playbooks of today give to loops and tools: `mode: cursor`, flat containers, forms, `input` anywhere."""

from collections.abc import Container

from shared.dsl.lower.nodes import Env, build, changed, get, is_list, is_map, items, listed, renamed, text_of, without
from shared.dsl.model.tool_spec import ToolSpec
from shared.dsl.source.nodes import Node

FORM = "application/x-www-form-urlencoded"
_CURSOR = 'write cursor: {kind: postgres, auth: <credential>, claim: "UPDATE … RETURNING …"} in the loop'
_OTHER = {"service_account": "serviceAccountName", "ttl_seconds": "ttlSecondsAfterFinished"}
_BODIES = ("body", "json", "data", "payload")
_STATUS = "write retry_on_status: [502, 503], or a rule with do: retry"


def cursor_mode(env: Env, loop: Node) -> Node:
    """`spec: {mode: cursor, frame: 50}` is a loop with a cursor; how many rows at a time, `max_in_flight` says."""
    spec = get(loop, "spec")
    mode, frame = get(spec, "mode"), get(spec, "frame")
    if spec is None or mode is None or mode.value != "cursor":
        return loop
    cursor = get(loop, "cursor") or get(spec, "cursor")
    if cursor is None or not is_map(cursor):
        env.error(mode, "DSL404", "mode: cursor, and the loop has no cursor", _CURSOR)
        cursor = build(mode.position, {"kind": "postgres", "claim": "SELECT 1"})
    size = get(frame, "size") if is_map(frame) else frame
    if size is not None and get(cursor, "frame") is None:
        cursor = changed(cursor, {"frame": size})
    parallel = "sequential" if get(spec, "max_in_flight") is None else "parallel"
    spec = changed(without(spec, ("frame", "cursor")), {"mode": build(mode.position, parallel)})
    return changed(loop, {"cursor": cursor, "spec": spec})


def with_input(node: Node) -> Node:
    """`input` is `args`, also under `spec`."""
    node = renamed(node, "input", "args")
    spec = get(node, "spec")
    given = get(spec, "input")
    if spec is None or given is None or get(node, "args") is not None:
        return node
    rest = without(spec, ("input",))
    return changed(node, {"spec": rest if rest.value else None, "args": given})


def other_keys(tool: ToolSpec) -> dict[str, str]:
    """Keys beside those of the tool that are rewritten, each with what becomes of it."""
    match tool.kind:
        case "http":
            return {"form": "Write body, with the content type of a form.",
                    "retry_on_status": "Write a rule with do: retry."}
        case "container":
            return {key: f"Write runtime: {{{key}: …}}." for key in tool.keys["runtime"].fields if key not in tool.keys}
    return {}


def todays_tool(env: Env, task: Node) -> Node:
    match text_of(get(task, "kind")):
        case "container":
            return _container(env, task)
        case "http":
            return _retried(env, _form(env, task))
    return task


def _container(env: Env, task: Node) -> Node:
    """What belongs to `runtime` beside the keys of the task; `args` as a list are the image's."""
    tool, runtime = env.kinds.get("container"), get(task, "runtime")
    if tool is None or not (runtime is None or is_map(runtime)):
        return task
    known = tool.keys["runtime"].fields
    names = {key: _kubernetes(key, known) for key in task.value if key not in tool.keys}
    flat = {names[key]: value for key, value in items(task) if names.get(key)}
    if is_list(args := get(task, "args")) and args is not None:
        flat["args"] = args
    if not flat:
        return task
    base = runtime if runtime is not None else build(task.position, {})
    gone = [key for key in task.value if names.get(key) or (key == "args" and "args" in flat)]
    return changed(task, {**dict.fromkeys(gone), "runtime": changed(base, {**flat, **dict(items(base))})})


def _kubernetes(key: str, known: Container[str]) -> str:
    """What Kubernetes calls a key of the container, which may be written with underscores; empty if it is none."""
    first, *rest = key.split("_")
    found = _OTHER.get(key, first + "".join(word.capitalize() for word in rest))
    return found if found in known else ""


def _form(env: Env, task: Node) -> Node:
    """A body of that content type."""
    form = get(task, "form")
    if form is None:
        return task
    if other := next((key for key in _BODIES if get(task, key) is not None), ""):
        env.error(form, "DSL204", f"the task has form and {other}", "keep one of the two")
        return without(task, ("form",))
    headers = get(task, "headers") or build(form.position, {})
    if is_map(headers) and not any(name.lower() == "content-type" for name in headers.value):
        headers = changed(headers, {"Content-Type": build(form.position, FORM)})
    return changed(renamed(task, "form", "body"), {"headers": headers})


def _retried(env: Env, task: Node) -> Node:
    """`retry_on_status` says when, a `retry` beside it how often."""
    given = get(task, "retry_on_status")
    if given is None:
        return task
    retry = get(task, "retry") or build(given.position, {})
    if not is_list(given) or any(type(each.value) is not int for each in listed(given)) or not is_map(retry):
        env.error(given, "DSL203", "retry_on_status is a list of numbers", _STATUS)
        return without(task, ("retry_on_status",))
    return changed(task, {"retry_on_status": None, "retry": changed(retry, {"retry_on_status": given})})
