"""A small judge of the part of JSON Schema that the playbook schema uses."""

import re
from typing import Any

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}


def faults(value: Any, schema: Any, root: Any, at: str = "$") -> list[str]:
    """Where the value does not fit; an empty list when it does."""
    if "$ref" in schema:
        schema = {**root["$defs"][schema["$ref"].removeprefix("#/$defs/")],
                  **{key: each for key, each in schema.items() if key != "$ref"}}
    found: list[str] = []
    if "if" in schema:
        branch = "then" if not faults(value, schema["if"], root) else "else"
        found += faults(value, schema.get(branch, {}), root, at)
    for each in schema.get("allOf", ()):
        found += faults(value, each, root, at)
    if "anyOf" in schema and all(faults(value, each, root) for each in schema["anyOf"]):
        found.append(f"{at}: fits none")
    if "not" in schema and not faults(value, schema["not"], root):
        found.append(f"{at}: fits what it must not")
    return found + _scalar(value, schema, at) + _object(value, schema, root, at) + _array(value, schema, root, at)


def _is(value: Any, name: str) -> bool:
    return isinstance(value, TYPES[name]) and not (isinstance(value, bool) and name in ("integer", "number"))  # type: ignore[arg-type]


def _scalar(value: Any, schema: Any, at: str) -> list[str]:
    named = schema.get("type", [])
    names = [named] if isinstance(named, str) else named
    if names and not any(_is(value, name) for name in names):
        return [f"{at}: not {names}"]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    checks = {
        "enum": lambda limit: value in limit,
        "const": lambda limit: value == limit,
        "pattern": lambda limit: not isinstance(value, str) or re.search(limit, value),
        "minLength": lambda limit: not isinstance(value, str) or len(value) >= limit,
        "maxLength": lambda limit: not isinstance(value, str) or len(value) <= limit,
        "minimum": lambda limit: not number or value >= limit,
        "maximum": lambda limit: not number or value <= limit,
        "exclusiveMinimum": lambda limit: not number or value > limit,
    }
    return [f"{at}: {key}" for key, fits in checks.items() if key in schema and not fits(schema[key])]


def _object(value: Any, schema: Any, root: Any, at: str) -> list[str]:
    if not isinstance(value, dict):
        return []
    found = [f"{at}: no {key}" for key in schema.get("required", ()) if key not in value]
    if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value)):
        found.append(f"{at}: number of keys")
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    for key, each in value.items():
        if key in properties:
            found += faults(each, properties[key], root, f"{at}.{key}")
        elif others is False:
            found.append(f"{at}.{key}: unknown")
        elif others is not True:
            found += faults(each, others, root, f"{at}.{key}")
    return found


def _array(value: Any, schema: Any, root: Any, at: str) -> list[str]:
    if not isinstance(value, list):
        return []
    found = [f"{at}: too short"] if len(value) < schema.get("minItems", 0) else []
    for index, each in enumerate(value):
        found += faults(each, schema.get("items", {}), root, f"{at}[{index}]")
    return found
