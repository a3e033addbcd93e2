"""The workload of an execution: the defaults of its playbook with the payload of its request over them (FS §3.2)."""

from collections.abc import Mapping
from typing import Any

from shared.dsl.templates.evaluate import evaluate


def merge_workload(defaults: Mapping[str, Any], payload: Mapping[str, Any], execution_id: str) -> dict[str, Any]:
    """Defaults rendered, the payload (never rendered: it is data) merged over them (FS §3.2)."""
    seen = deep_merge(defaults, payload)
    rendered = evaluate(dict(defaults), {"payload": payload, **whole_scope(execution_id, seen)})
    return deep_merge(rendered, payload)


def whole_scope(execution_id: str, workload: Mapping[str, Any]) -> dict[str, Any]:
    """What can be named before anything has run."""
    return {**workload, "workload": workload, "execution_id": execution_id, "job": {"uuid": execution_id}}


def deep_merge(outer: Mapping[str, Any], inner: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(outer)
    for key, value in inner.items():
        old = merged.get(key)
        merged[key] = deep_merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged
