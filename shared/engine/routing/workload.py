"""The workload of an execution: the playbook's defaults, rendered, with the request's payload over them (FS §3.2).

1. The payload is data: it is never rendered, and a default that it replaces is not rendered either.
2. A template sees the payload, and the keys that are rendered before its own (`Plan.workload_order`: one that reads
   another comes after it). Of any other key, its own included, it sees what is plain there. So no template ever sees
   the text of another one.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from shared.dsl.model.plan import Plan
from shared.dsl.templates.evaluate import evaluate, is_template
from shared.dsl.templates.names import NOW
from shared.engine.values.stored_values import MAX_WORKLOAD_BYTES
from shared.errors import OverLimit

MAX_MADE_BYTES = 4 * MAX_WORKLOAD_BYTES  # by templates, of which each may hold all before it
_RESERVED = ("workload", "execution_id", "job", NOW)  # the namespaces win over data of the same name


def merge_workload(plan: Plan, payload: Mapping[str, Any], execution_id: str, ts: str) -> dict[str, Any]:
    if not plan.workload_order:
        seen = deep_merge(plan.workload, payload)
        rendered = evaluate(dict(plan.workload), {"payload": payload, **whole_scope(execution_id, seen), NOW: ts})
        return deep_merge(rendered, payload)
    found = deep_merge(_plain_mapping(plan.workload), payload)
    scope = {"payload": payload, **whole_scope(execution_id, found), NOW: ts}
    size = 0
    for key in plan.workload_order:
        given = payload.get(key)
        if key in payload and not (isinstance(given, dict) and isinstance(plan.workload[key], dict)):
            continue
        value = evaluate(plan.workload[key], scope)
        value = deep_merge(value, given) if isinstance(given, dict) else value
        size += len(msgspec.json.encode(value))
        if size > MAX_MADE_BYTES:
            raise OverLimit(f"templates of the workload make over {MAX_MADE_BYTES} bytes")
        found = {**found, key: value}  # a new one: `{{ workload }}` gives the one before, which does not hold itself
        scope["workload"] = found
        if key not in _RESERVED:
            scope[key] = value
    return {key: found[key] for key in (*plan.workload, *payload) if key in found}


def whole_scope(execution_id: str, workload: Mapping[str, Any]) -> dict[str, Any]:
    """What can be named before anything has run."""
    return {**workload, "workload": workload, "execution_id": execution_id, "job": {"uuid": execution_id}}


def deep_merge(outer: Mapping[str, Any], inner: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(outer)
    for key, value in inner.items():
        old = merged.get(key)
        merged[key] = deep_merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _plain_mapping(value: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is made by templates. A list is plain as a whole, or not there: its places would shift."""
    return {key: _plain_mapping(each) if isinstance(each, dict) else each for key, each in value.items()
            if isinstance(each, dict) or _is_plain(each)}


def _is_plain(value: Any) -> bool:
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, str) and is_template(node):
            return False
        if isinstance(node, dict):
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)
    return True
