"""Canonical tasks, rules and directives as nodes: what lowering is put together from."""

import re
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from shared.dsl.lower.auth import lower_auth
from shared.dsl.lower.commands import lower_commands
from shared.dsl.lower.name_meanings import condition, in_rules
from shared.dsl.lower.names import Names, expression, mapped_node, renamed_node
from shared.dsl.lower.nodes import Env, build, changed, get, is_map, items, listed, renamed, text_of, without
from shared.dsl.lower.program import lower_program
from shared.dsl.model.tool_spec import ToolSpec
from shared.dsl.source.nodes import Entry, Node, Position

ERROR = "{{ outcome.status == 'error' }}"
OK = "{{ outcome.status == 'ok' }}"
_ALIASES = {
    "http": {"endpoint": "url", "payload": "body", "verify_ssl": "verify"},
    "postgres": {"credential": "auth", "statement": "command", "sql": "command"},
    "duckdb": {"commands": "command", "statement": "command", "sql": "command"},
    "ducklake": {"credential": "auth", "statement": "command", "sql": "command"},
    "snowflake": {"credential": "auth", "statement": "command", "sql": "command"},
    "gcs": {"credential": "auth"},
    "python": {"with": "args"},
}
_RAW = re.compile(r"\{\{-?\s*`([^`]*)`\s*-?\}\}")
_BODIES = ("body", "json", "data", "payload", "form")
RULES = "<rules>"  # of a sink: those that try again; no author can write such a key
_TIMEOUTS = ("timeout_s", "timeout_seconds")
_BY_RULE = "{{ dict(kind='policy', message='a rule of the sink says fail', retryable=false, sink=_task) }}"


def rule(when: Any, then: dict[str, Any]) -> dict[str, Any]:
    return {"when": when, "then": then}


def otherwise(then: dict[str, Any]) -> dict[str, Any]:
    return {"else": {"then": then}}


def directive(do: str, *, set_ctx: dict[str, Any] | None = None, set_iter: dict[str, Any] | None = None,
              **keys: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"do": do, **keys}
    if set_ctx:
        found["set_ctx"] = set_ctx
    if set_iter:
        found["set_iter"] = set_iter
    return found


def noop(position: Position, name: str, rules: list[dict[str, Any]]) -> Node:
    return build(position, {"name": name, "kind": "noop", "spec": {"policy": {"rules": rules}}})


def with_rules(task: Node, first: Sequence[dict[str, Any] | Node], rest: list[dict[str, Any]]) -> Node:
    """The task with the first rules before its own, or, when it has none, before the rest."""
    own = get(task, "spec", "policy", "rules")
    put = [build(task.position, each) for each in first]
    if own is not None and isinstance(own.value, list):
        put += own.value
    else:
        put += [build(task.position, each) for each in rest]
    spec = get(task, "spec") or build(task.position, {})
    policy = get(spec, "policy") or build(task.position, {})
    if not is_map(spec) or not is_map(policy):
        return task  # reported by the reader
    policy = changed(policy, {"rules": Node(task.position, put)})
    return changed(task, {"spec": changed(spec, {"policy": policy})})


def has_policy(task: Node) -> bool:
    return get(task, "spec", "policy") is not None


def named(task: Node, name: str) -> Node:
    """The task with its name first, as the canonical form has it."""
    entries = {"name": Entry(task.position, build(task.position, name))}
    return Node(task.position, entries | {key: entry for key, entry in task.value.items() if key != "name"})


def other_names(tool: ToolSpec) -> dict[str, str]:
    """What people call the tool's keys and knobs, each with the key that it is."""
    names = {**_ALIASES.get(tool.kind, {}), **dict.fromkeys(_TIMEOUTS, "timeout")}
    return {old: new for old, new in names.items() if old not in (*tool.keys, "args", "auth")}


def own_keys(env: Env, task: Node) -> Node:
    """Keys under other names, and the tool's own keys where they are under `spec`."""
    kind = text_of(get(task, "kind"))
    tool, spec = env.kinds.get(kind), get(task, "spec")
    if tool is None:
        return task
    known = (*tool.keys, "args", "auth")
    aliases = other_names(tool)
    task = _knobs(lower_auth(env, task, tool), tool, aliases)
    spec = get(task, "spec")
    for old, new in aliases.items():
        task = renamed(task, old, new)
        spec = renamed(spec, old, new) if spec is not None else None
    moved = {key: value for key, value in items(spec)
             if key in known and key not in tool.all_knobs() and get(task, key) is None}
    if spec is not None and moved:
        rest = without(spec, moved)
        task = changed(task, {"spec": rest if rest.value else None, **moved})
    return _by_its_name(task, tool)


def _by_its_name(task: Node, tool: ToolSpec) -> Node:
    """The name of a task says what is wanted, where no key of it does."""
    name = get(task, "name")
    if not tool.by_name or name is None or any(get(task, key) is not None for key in (tool.by_name, *tool.one_of)):
        return task
    return changed(task, {tool.by_name: name})


def _knobs(task: Node, tool: ToolSpec, aliases: dict[str, str]) -> Node:
    """Knobs of the tool that are beside its keys go to `spec`; `pool: {}` asks for nothing."""
    moved = {aliases.get(key, key): value for key, value in items(task)
             if aliases.get(key, key) in tool.all_knobs() and key not in (*tool.keys, "retry")}  # of a task: its policy
    pool, spec = get(task, "pool"), get(task, "spec")
    put: dict[str, Node | None] = {key: None for key in task.value if aliases.get(key, key) in moved}
    if pool is not None and pool.value == {} and "pool" not in tool.keys:
        put["pool"] = None
    if moved and (spec is None or is_map(spec)):
        base = spec if spec is not None else build(task.position, {})
        put["spec"] = changed(base, {**moved, **dict(items(base))})
    return changed(task, put) if put else task


def without_raw(text: str) -> str:
    """Text between backticks inside braces is taken as it is by other template languages: here it is a string."""
    return _RAW.sub(_quoted, text) if "{{`" in text or "{{ `" in text else text


def _quoted(found: re.Match[str]) -> str:
    inner = found[1].replace("\\", "\\\\").replace("'", "\\'")
    return "{{ '" + inner + "' }}"


def renamed_patch(patch: dict[str, Node], names: Names) -> dict[str, Any]:
    return {key: renamed_node(value, names) for key, value in patch.items()}


def renamed_task(env: Env, task: Node, names: Names) -> Node:
    """The task with the names in its templates replaced; program text is not a template."""
    tool = env.kinds.get(text_of(get(task, "kind")))
    verbatim = {key for key, spec in tool.keys.items() if not spec.template} if tool is not None else set()
    return changed(task, {key: renamed_node(mapped_node(value, without_raw), names) for key, value in items(task)
                          if key not in verbatim})


def sink_task(env: Env, sink: Node, label: str, names: Names, after: dict[str, Any],
              fails: list[dict[str, Any]] | None = None) -> list[Node]:
    """A sink as a task that stores and then jumps on (FS §10). With `when` a noop before it decides. `fails` are the
    rules of its failure."""
    body = _sink_body(env, sink)
    if body is None:
        return []
    body = lower_program(env, lower_commands(env, _stored(env, own_keys(env, _inserted(_logged(_sent(env, body)))))))
    failing = fails or [rule(ERROR, directive("fail"))]
    first = listed(get(body, RULES))
    store = named(renamed_task(env, without(body, (RULES,)), names), label)
    if env.edition > 3 and (spec := get(body, "spec")) is not None:
        store = changed(store, {"spec": renamed_node(mapped_node(spec, without_raw), _in_own_rules(env, names))})
        store = _led_on(env, store, after, failing)
    store = with_rules(store, first, [*failing, otherwise(after)])
    env.mark(label, "sink")
    when = get(sink, "when")
    if when is None:
        return [store]
    gate = env.label(f"{label}_if", when.position, "the when of a sink")
    env.mark(gate, "sink.when")
    test = Node(when.position, condition(when.value, names), when.style)
    keep: dict[str, Any] = {"result": "_prev"}
    return [noop(sink.position, gate, [rule(test, directive("jump", to=label, **keep)), otherwise({**after, **keep})]),
            store]


def _in_own_rules(env: Env, names: Names) -> Names:
    """There `outcome` is that of the sink's own call."""
    of_step = {pair: text for pair, text in names.dotted.items() if pair[0] not in ("outcome", "output")}
    return replace(names, dotted={**of_step, **in_rules(env.edition).dotted})


def _led_on(env: Env, store: Node, after: dict[str, Any], failing: list[dict[str, Any]]) -> Node:
    """The sink's own rules with the way on after it: what they let pass goes there, and their failures say which sink
    it was."""
    own = get(store, "spec", "policy", "rules")
    spec, policy = get(store, "spec"), get(store, "spec", "policy")
    if own is None or spec is None or policy is None or not isinstance(own.value, list):
        return store
    rules = [more for each in own.value for more in _rules_on(env, each, after, failing)]
    if not any(get(each, "else") is not None for each in own.value):
        rules += [build(store.position, each) for each in (*failing, otherwise(after))]
    return changed(store, {"spec": changed(spec, {"policy": changed(policy, {"rules": Node(own.position, rules)})})})


def _rules_on(env: Env, each: Node, after: dict[str, Any], failing: list[dict[str, Any]]) -> list[Node]:
    other = get(each, "else")
    then = get(other if is_map(other) else each, "then")
    do = text_of(get(then, "do"))
    if then is None or not is_map(then) or (do == "fail" and get(then, "error") is not None):
        return [each]
    if do in ("continue", "break"):
        put = {**after, **{scope: {**dict(items(get(then, scope))), **after.get(scope, {})}
                           for scope in ("set_ctx", "set_iter") if scope in after or get(then, scope) is not None}}
        return [_then(each, changed(then, {name: build(then.position, value) for name, value in put.items()}))]
    if do == "jump":
        env.error(then, "DSL301", "a rule of a sink cannot jump: it is known by then where its step leads",
                  "write do: continue, retry or fail")
    if do != "fail":
        return [each]
    split = [build(each.position, {"when": _both(get(each, "when"), test["when"]), "then": changed(
        then, {name: build(then.position, value) for name, value in test["then"].items() if name == "error"})})
        for test in failing]
    return [*split, _then(each, changed(then, {"error": build(then.position, _BY_RULE)}))]


def _then(each: Node, then: Node) -> Node:
    """The rule with another `then`, in either shape of `else`."""
    below = get(each, "else")
    if below is not None and is_map(below):
        return changed(each, {"else": changed(below, {"then": then})})
    return changed(each, {"then": then})


def _both(when: Node | None, test: str) -> Any:
    """Both conditions; `else` has none of its own."""
    inner = expression(text_of(when)) if when is not None else None
    if inner is None:
        return test if when is None or when.value else "{{ false }}"
    return "{{ (" + inner + ") and (" + (expression(test) or test) + ") }}"


def _sent(env: Env, body: Node) -> Node:
    """The args of an http sink that has no body are its body, and it is sent."""
    args = get(body, "args")
    if env.edition < 3 or args is None or text_of(get(body, "kind")) != "http":
        return body
    if any(get(body, name) is not None or get(body, "spec", name) is not None for name in _BODIES):
        return body
    method = get(body, "method") or build(body.position, "POST")
    return changed(body, {"args": None, "method": method, "body": args})


def _stored(env: Env, body: Node) -> Node:
    """A program that stores has what is to be stored as `data`, unless it is given something of that name."""
    args = get(body, "args")
    if env.edition < 3 or text_of(get(body, "kind")) != "python" or (args is not None and not is_map(args)):
        return body
    if get(args, "data") is not None or "data" not in text_of(get(body, "code")):
        return body
    return changed(body, {"args": build(body.position, {"data": "{{ result }}", **dict(items(args))})})


def _logged(body: Node) -> Node:
    """A sink to the event log is a task that only records: every outcome is in the log."""
    if text_of(get(body, "kind")) not in ("event", "event_log"):
        return body
    args = get(body, "args")
    value = args if args is None or is_map(args) else build(body.position, {"value": args})
    return changed(body, {"kind": build(body.position, "noop"), "args": value})


def _inserted(body: Node) -> Node:
    """`mode: insert` is what a table and its args mean anyway."""
    mode = get(body, "mode")
    return without(body, ("mode",)) if mode is not None and mode.value == "insert" and get(body, "table") else body


def _sink_body(env: Env, sink: Node) -> Node | None:
    """`{tool: {kind, …}, args}`, or `{tool: <kind>, …}` with the tool's keys beside it; also `{backend: <kind>, from}`,
    when `from` says the columns, or which value has them."""
    row = get(sink, "from")
    said = row is not None and (is_map(row) or expression(text_of(row)) is not None)
    if get(sink, "tool") is None and text_of(get(sink, "backend")) and said:
        sink = renamed(renamed(sink, "backend", "tool"), "from", "args")
    tool = get(sink, "tool")
    if tool is None or not (is_map(tool) or text_of(tool)):
        kind, table = text_of(get(sink, "backend")) or "postgres", text_of(get(sink, "table")) or "…"
        env.error(sink, "DSL202", "the sink has no tool",
                  f"write sink: {{tool: {{kind: {kind}, auth: <credential>, table: {table}}}, "
                  "args: {<column>: <value>}}"[:200])
        return None
    extra = without(sink, ("tool", "when"))
    if not is_map(tool):
        entries = {"kind": Entry(tool.position, tool)}
        return Node(sink.position, entries | dict(extra.value))
    for key, value in items(extra):
        if get(tool, key) is not None:
            env.error(value, "DSL104", f"{key} is given in the sink and in its tool", "keep one of the two")
    return changed(tool, dict(items(extra)))
