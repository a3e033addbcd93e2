"""JSON Schema (2020-12) of a playbook and of its tests, made from the table of keys and the installed tools.
Editors use it through `# yaml-language-server: $schema=…`."""

from collections.abc import Mapping
from typing import Any

from shared.dsl.authoring.language import SHAPES, Key, Shape
from shared.dsl.authoring.test_language import TEST_SHAPES
from shared.dsl.lower.build import other_names
from shared.dsl.lower.today.shapes import other_keys
from shared.dsl.model.tool_spec import KeySpec, ToolSpec
from shared.dsl.playtests.model import ANSWERS
from shared.dsl.read.joins_and_compensation import JOINS, MAX_JOIN, MIN_JOIN
from shared.dsl.read.reader import MAX_NAME, NAME
from shared.dsl.read.spec_layers import all_knobs

DIALECT = "https://json-schema.org/draft/2020-12/schema"
FILE = "noetl.schema.json"
TEST_FILE = "noetl.test.schema.json"
FORMAL_KINDS = ("iterator", "workbook")
SUGAR = ("choose", "while", "until")  # V10 §14
LEFT_OUT = {"playbook": ("task",), "postgres": ("mode", "pool")}  # keys that lowering removes
_SECONDS = {"type": "number", "exclusiveMinimum": 0}
TYPES: dict[str, dict[str, Any]] = {
    "any": {},
    "text": {"type": "string", "minLength": 1},
    "name": {"type": "string", "maxLength": MAX_NAME, "pattern": "^" + NAME.pattern.removesuffix(r"\Z") + "$"},
    "step_name": {"type": "string", "pattern": "^(?:[A-Za-z_]|/?[A-Za-z0-9_-]+/|/)[A-Za-z0-9_/-]*$"},
    "version": {"type": ["string", "number"]},
    "bool": {"type": "boolean"},
    "whole": {"type": "integer"},
    "count": {"type": ["integer", "string"]},
    "paths": {"type": ["array", "object"]},
    "texts": {"type": "array", "items": {"type": "string"}},
    "seconds": _SECONDS,
    "delay": {"type": ["number", "string"], "minimum": 0},
    "mapping": {"type": "object"},
    "list": {"type": "array"},
    "items": {"type": ["array", "string"]},
    "condition": {"type": ["boolean", "string"]},
    "join": {"anyOf": [{"enum": list(JOINS)}, {"type": "integer", "minimum": MIN_JOIN, "maximum": MAX_JOIN}]},
}
Json = dict[str, Any]


def schema(kinds: Mapping[str, ToolSpec]) -> Json:
    shapes = {name: _shape(shape, kinds) for name, shape in SHAPES.items() if name != "playbook"}
    shapes["timeout"] = {"anyOf": [{"type": ["number", "string"]}, shapes["timeout"]]}
    shapes["compensate"] = {"anyOf": [{"type": "string"}, shapes["compensate"]]}
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
    shapes["metadata"].pop("required")  # a name at the root will do
    named = {"anyOf": [{"required": ["name"]}, {"properties": {"metadata": {"required": ["name"]}},
                                                "required": ["metadata"]}]}
    return {"$schema": DIALECT, "title": "NoETL playbook", **_shape(SHAPES["playbook"], kinds), **named,
            "$defs": shapes}


def schema_of_tests() -> Json:
    """That of `kind: Test`."""
    shapes = {name: _shape(shape, {}) for name, shape in TEST_SHAPES.items() if name != "test"}
    shapes["expect"]["properties"]["steps"]["additionalProperties"] = _ref("step_expect")
    shapes["expect"]["properties"]["calls"]["additionalProperties"] = {"type": "integer", "minimum": 0}
    shapes["expect"]["properties"]["elapsed"]["anyOf"] = [{"type": ["number", "string"]}, _ref("elapsed")]
    shapes["mock"]["properties"]["error"]["type"] = ["string", "object"]
    shapes["mock"]["oneOf"] = [{"required": [answer]} for answer in ANSWERS]
    return {"$schema": DIALECT, "title": "NoETL test of a playbook", **_shape(TEST_SHAPES["test"], {}), "$defs": shapes}


def _ref(name: str) -> Json:
    return {"$ref": f"#/$defs/{name}"}


def _shape(shape: Shape, kinds: Mapping[str, ToolSpec]) -> Json:
    properties = {name: _key(key) for name, key in shape.items() if name not in ("knobs", "*")}
    if "knobs" in shape:
        properties = {**_own(all_knobs(kinds)), **properties}
    made: Json = {"type": "object", "properties": properties, "additionalProperties": "*" in shape}
    formal = {key.instead: name for name, key in shape.items() if key.instead}
    required = [name for name, key in shape.items() if key.required and name not in formal]
    either = [{"anyOf": [{"required": [name]}, {"required": [other]}]} for name, other in formal.items()]
    return {**made, **({"required": required} if required else {}), **({"allOf": either} if either else {})}


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
        found = {**found, "enum": [*key.choices, *key.also]}
    if key.most is not None:
        found |= {"minimum": key.least, "maximum": key.most}
    return found


def _own(keys: Mapping[str, KeySpec]) -> Json:
    """A tool's key may be a template wherever its type allows text, so only its name is checked."""
    return {name: {"description": key.doc, **_inside(key)} for name, key in keys.items()}


def _inside(key: KeySpec) -> Json:
    return {"type": "object", "properties": _own(key.fields), "additionalProperties": False} if key.fields else {}


def _needs(spec: ToolSpec) -> list[Json]:
    """Each required key, or one of several: on the task or under its `spec`, by any of its names."""
    names = other_names(spec)
    groups = [[name] for name, key in spec.keys.items() if key.required] + ([list(spec.one_of)] if spec.one_of else [])
    found = []
    for group in groups:
        keys = [*group, *(old for old, new in names.items() if new in group)]
        keys += ["image"] if group == ["runtime"] else []  # of a flat container
        under = [{"properties": {"spec": {"type": "object", "required": [key]}}, "required": ["spec"]} for key in keys]
        found.append({"anyOf": [*({"required": [key]} for key in keys), *under]})
    return found


def _of_kind(spec: ToolSpec, common: Json, task_spec: Json) -> Json:
    """A task of one kind. Its keys may be under `spec`, and its knobs beside its keys."""
    names = other_names(spec)
    formal = {old: f"The same as {new}." for old, new in names.items()}
    formal |= {name: f"Write spec: {{{name}: …}}." for name in spec.all_knobs() if name not in spec.keys}
    formal |= other_keys(spec)
    formal |= dict.fromkeys(LEFT_OUT.get(spec.kind, ()), "Changes nothing.")
    other = {name: {"description": doc, "deprecated": True} for name, doc in formal.items() if name not in common}
    below = {**{key: {"deprecated": True} for key in ("input", *spec.keys, *names)}, **task_spec["properties"]}
    needs = _needs(spec)
    return {"properties": {**other, **common, "kind": {"const": spec.kind, "description": spec.doc},
                           "spec": {**task_spec, "properties": below}, **_own(spec.keys)},
            "required": ["kind"], "additionalProperties": False, **({"allOf": needs} if needs else {})}


def _task(kinds: Mapping[str, ToolSpec]) -> Json:
    """The keys of a task depend on its kind; those the compiler rewrites accept any."""
    common = {name: _key(key) for name, key in SHAPES["task"].items()}
    common["kind"]["enum"] = sorted({*kinds, *FORMAL_KINDS})
    task_spec = _shape(SHAPES["task_spec"], kinds)
    by_kind = [{"if": {"properties": {"kind": {"const": spec.kind}}, "required": ["kind"]},
                "then": _of_kind(spec, common, task_spec)} for spec in kinds.values()]
    loose = {key: value for key, value in common.items() if key not in ("spec", "output_select")}
    return {"type": "object", "required": ["kind"], "properties": loose, "allOf": by_kind}
