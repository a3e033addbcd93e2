"""The table of keys, and what is made of it: the schema and the explanations."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.dsl import root, rules, steps, tasks
from shared.dsl.explain import Unknown, below, explain
from shared.dsl.language import SHAPES
from shared.dsl.schema import TYPES, schema
from shared.tools import registry
from tests.unit.checks.json_schema import faults

KINDS = registry.specs()
SCHEMA = schema(KINDS)
EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))


def canonical(shape: str) -> set[str]:
    return {name for name, key in SHAPES[shape].items() if not key.formal and name not in ("knobs", "*")}


@pytest.mark.parametrize(("shape", "keys"), [
    ("playbook", root.ROOT_KEYS),
    ("metadata", root.METADATA_KEYS),
    ("step", steps.STEP_KEYS),
    ("task", tasks.COMMON_KEYS),
    ("then", rules._THEN_KEYS),
    ("task_policy", rules._POLICY_KEYS),
])
def test_the_table_has_the_keys_the_compiler_takes(shape: str, keys: tuple[str, ...]) -> None:
    assert canonical(shape) == set(keys)


def test_every_key_has_a_known_type_and_one_line_of_documentation() -> None:
    for shape in SHAPES.values():
        for key in shape.values():
            word = key.type.strip("[]")
            assert word in (*TYPES, "kind", "knobs", "@tool") or word[1:] in SHAPES
            assert key.doc.endswith(".")
            assert "\n" not in key.doc


def paths(shape: str, at: str, seen: frozenset[str] = frozenset()) -> list[str]:
    found = []
    for name, key in SHAPES[shape].items():
        if name in ("knobs", "*"):
            continue
        found.append(f"{at}{name}")
        inner = below(key)
        if inner and inner not in seen:
            found += paths(inner, f"{at}{name}.", seen | {inner})
    return found


@pytest.mark.parametrize("path", [*paths("playbook", ""), *paths("step", "step."), *KINDS])
def test_every_path_is_explained(path: str) -> None:
    text = explain(path, KINDS)
    assert len(text.splitlines()) >= 3


@pytest.mark.parametrize(("path", "part"), [
    ("step.spec.policy.admit", "rules"),
    ("workflow[].next.arcs[].when", "fires when the step succeeded"),
    ("then.attempts", "From 1 to 1000."),
    ("tool.http.url", "Required."),
    ("python.code", "Taken as written"),
    ("postgres.command", "bound parameter"),
    ("step.spec.verify", "certificate"),
    ("step.case", "Formal dialect"),
    ("DSL904", "arc never taken"),
    ("", "apiVersion"),
])
def test_an_explanation_says(path: str, part: str) -> None:
    assert part in explain(path, KINDS)


@pytest.mark.parametrize(("path", "near"), [
    ("step.spec.polcy", "policy"), ("metdata", "metadata"), ("http.ulr", "url"), ("DSL999", "DSL9"),
    ("metadata.name.first", "known here: none"),
])
def test_an_unknown_path_names_what_is_near(path: str, near: str) -> None:
    with pytest.raises(Unknown, match=near):
        explain(path, KINDS)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_examples_fit_the_schema(file: Path) -> None:
    assert faults(yaml.safe_load(file.read_text(encoding="utf-8")), SCHEMA, SCHEMA) == []


def playbook(step: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": {"name": "x"},
            "workflow": [{"step": "start", **step}]}


@pytest.mark.parametrize("step", [
    {"tool": {"kind": "http", "url": "http://localhost/", "args": {}}},
    {"tool": [{"fetch": {"kind": "noop"}}, {"name": "two", "kind": "noop", "spec": {"timeout": {"read": 5}}}]},
    {"tool": {"kind": "noop"}, "spec": {"verify": False, "timeout": 5}},
    {"tool": {"kind": "noop"}, "next": "end"},
    {"tool": {"kind": "noop"}, "next": [{"step": "end"}], "vars": {"a": 1}},
])
def test_what_the_compiler_takes_fits_the_schema(step: dict[str, Any]) -> None:
    assert faults(playbook(step), SCHEMA, SCHEMA) == []


@pytest.mark.parametrize("step", [
    {"tool": {"kind": "http"}},
    {"tool": {"kind": "ftp"}},
    {"tool": {"kind": "noop", "url": "x"}},
    {"tool": []},
    {"tool": [{"fetch": {"kind": "http"}}]},
    {"tool": {"kind": "noop", "spec": {"policy": {"rules": [{"then": {"do": "stop"}}]}}}},
    {"tool": {"kind": "noop"}, "next": {"arcs": [{"when": True}]}},
    {"tool": {"kind": "noop"}, "loop": {"in": [1]}},
    {"tool": {"kind": "noop"}, "when": "{{ x }}"},
    {"tool": {"kind": "noop"}, "spec": {"policy": {"lifecycle": {"timeout_s": 0}}}},
])
def test_what_the_compiler_refuses_does_not_fit(step: dict[str, Any]) -> None:
    assert faults(playbook(step), SCHEMA, SCHEMA) != []
