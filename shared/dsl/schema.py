"""JSON Schema (2020-12) of a playbook, made from the table of keys and the installed tools. Editors use
it through `# yaml-language-server: $schema=…`."""

from collections.abc import Mapping
from typing import Any

from shared.dsl.kinds import KeySpec, ToolSpec
from shared.dsl.language import SHAPES, Key, Shape
from shared.dsl.overlay import all_knobs
from shared.dsl.reader import MAX_NAME, NAME

DIALECT = "https://json-schema.org/draft/2020-12/schema"
FILE = "noetl.schema.json"
FORMAL_KINDS = ("iterator", "workbook")
SUGAR = ("choose", "while", "until")  # V10 §14
_SECONDS = {"type": "number", "exclusiveMinimum": 0}
TYPES: dict[str, dict[str, Any]] = {
    "any": {},
    "text": {"type": "string", "minLength": 1},
    "name": {"type": "string", "maxLength": MAX_NAME, "pattern": "^" + NAME.pattern.removesuffix(r"\Z") + "$"},
    "version": {"type": ["string", "number"]},
    "bool": {"type": "boolean"},
    "whole": {"type": "integer"},
    "seconds": _SECONDS,
    "delay": {"type": ["number", "string"], "minimum": 0},
    "mapping": {"type": "object"},
    "list": {"type": "array"},
    "items": {"type": ["array", "string"]},
    "condition": {"type": ["boolean", "string"]},
}
Json = dict[str, Any]


def schema(kinds: Mapping[str, ToolSpec]) -> Json:
    shapes = {name: _shape(shape, kinds) for name, shape in SHAPES.items() if name != "playbook"}
    shapes["timeout"] = {"anyOf": [{"type": ["number", "string"]}, shapes["timeout"]]}
    shapes["task"] = _task(kinds)
    labelled = {"type": "object", "minProperties": 1, "maxProperties": 1,
                "additionalProperties": _ref("task"), "not": {"required": ["kind"]}}
    sugar = {"anyOf": [{"required": [word]} for word in SUGAR]}
    plain = {"anyOf": [{"required": ["kind"]}, {"required": ["name"]}]}
    one = {"if": sugar, "then": {"type": "object"}, "else": {"if": plain, "then": _ref("task"), "else": labelled}}
    shapes["tool"] = {"if": {"type": "array"}, "then": {"type": "array", "minItems": 1, "items": one},
                      "else": _ref("task")}
    shapes["next"] = {"if": {"type": "object"}, "then": shapes["next"],
                      "else": {"type": ["string", "array"], "deprecated": True,
                               "description": "Formal dialect: write next: {arcs: [{step: …}]}."}}
    return {"$schema": DIALECT, "title": "NoETL playbook", **_shape(SHAPES["playbook"], kinds), "$defs": shapes}


def _ref(name: str) -> Json:
    return {"$ref": f"#/$defs/{name}"}


def _shape(shape: Shape, kinds: Mapping[str, ToolSpec]) -> Json:
    properties = {name: _key(key) for name, key in shape.items() if name not in ("knobs", "*")}
    if "knobs" in shape:
        properties = {**_own(all_knobs(kinds)), **properties}
    required = [name for name, key in shape.items() if key.required]
    made: Json = {"type": "object", "properties": properties, "additionalProperties": "*" in shape}
    return {**made, "required": required} if required else made


def _key(key: Key) -> Json:
    doc: Json = {"description": key.doc}
    if key.formal:
        return {**doc, "deprecated": True}
    if key.default is not None:
        doc["default"] = key.default
    word = key.type
    if word.startswith("["):
        return {**doc, "type": "array", "items": _ref(word.strip("[]@"))}
    if word.startswith("@"):
        return {**doc, **_ref(word[1:])}
    found = {**doc, **TYPES["text" if word == "kind" else word]}
    if key.choices:
        found = {**found, "enum": list(key.choices)}
    if key.most is not None:
        found |= {"minimum": key.least, "maximum": key.most}
    return found


def _own(keys: Mapping[str, KeySpec]) -> Json:
    """A tool's key may be a template wherever its type allows text, so only its name is checked."""
    return {name: {"description": key.doc} for name, key in keys.items()}


def _task(kinds: Mapping[str, ToolSpec]) -> Json:
    """The keys of a task depend on its kind; those the compiler rewrites take any."""
    common = {name: _key(key) for name, key in SHAPES["task"].items()}
    common["kind"]["enum"] = sorted({*kinds, *FORMAL_KINDS})
    by_kind = [
        {"if": {"properties": {"kind": {"const": spec.kind}}, "required": ["kind"]},
         "then": {"properties": {**common, "kind": {"const": spec.kind, "description": spec.doc}, **_own(spec.keys)},
                  "required": ["kind", *(name for name, key in spec.keys.items() if key.required)],
                  "additionalProperties": False}}
        for spec in kinds.values()
    ]
    return {"type": "object", "required": ["kind"], "properties": common, "allOf": by_kind}
