"""Layers of `spec` (V10 §3): knobs flow inwards, policies do not, because each scope gives the word
its own meaning (V10 §5)."""

from collections.abc import Iterable, Mapping
from typing import Any

from shared.dsl.model.tool_spec import COMMON_KNOBS, OWN_ATTEMPTS, OWN_DELAY_S, OWN_RETRY, KeySpec, ToolSpec
from shared.dsl.read.reader import Reader, named, short
from shared.dsl.read.template_fields import check_templates, read_expression
from shared.dsl.source.nodes import Path

TIMEOUT_KEYS = ("connect", "read", "total")


def merge(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Later layers win: mappings merge deep, scalars and lists replace (V10 §3.1)."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            old = merged.get(key)
            both = isinstance(old, dict) and isinstance(value, dict)
            merged[key] = merge(old, value) if both else value  # type: ignore[arg-type]
    return merged


def effective_spec(tool: ToolSpec | None, layers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What this tool accepts of the layers, from its own defaults to the task's `spec`."""
    if tool is None:
        return {}
    knobs = tool.all_knobs()
    merged = merge(tool.defaults, *layers)
    return {key: value for key, value in merged.items() if key in knobs}


def all_knobs(kinds: Mapping[str, ToolSpec]) -> dict[str, KeySpec]:
    """The knobs an outer scope may set: those of any tool."""
    knobs = dict(COMMON_KNOBS)
    for tool in kinds.values():
        knobs.update(tool.knobs)
    return knobs


def read_knobs(reader: Reader, spec: Mapping[str, Any], path: Path, knobs: Iterable[str]) -> dict[str, Any]:
    """The knobs among the keys of a spec, checked. Other keys are the caller's."""
    found = {key: spec[key] for key in knobs if key in spec}
    for key, value in found.items():
        if key == "timeout":
            _timeout(reader, value, (*path, key))
        elif key == "retry":
            _retry(reader, value, (*path, key))
        else:
            check_templates(reader, value, (*path, key))
    return found


def _retry(reader: Reader, value: Any, path: Path) -> None:
    """Of a tool's own retries (V10 §9.1); a template is checked when the call is made."""
    found = reader.mapping(value, path, "write retry: {attempts: 3, delay: 0.2}, or a rule with do: retry")
    reader.keys(found, path, OWN_RETRY, {}, named(path))
    if "attempts" in found and not isinstance(found["attempts"], str):
        reader.whole(found["attempts"], (*path, "attempts"), 1, OWN_ATTEMPTS)
    if "delay" in found and (type(found["delay"]) not in (int, float, str) or
                             (not isinstance(found["delay"], str) and not 0 <= found["delay"] <= OWN_DELAY_S)):
        reader.value((*path, "delay"), "DSL204", f"{named(path)}.delay is {short(found['delay'])}",
                     f"a number of seconds from 0 to {OWN_DELAY_S}")
    check_templates(reader, value, path)


def _timeout(reader: Reader, value: Any, path: Path) -> None:
    if isinstance(value, dict):
        reader.keys(value, path, TIMEOUT_KEYS, {}, named(path))
        for key in TIMEOUT_KEYS:
            if key in value:
                _timeout(reader, value[key], (*path, key))
    elif isinstance(value, str):
        read_expression(reader, value, path, "a number of seconds above 0, or one {{ expression }}")
    else:
        reader.seconds(value, path)
