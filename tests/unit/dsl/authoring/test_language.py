"""The table of keys, and what is made of it: the schema and the explanations."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from shared.dsl.authoring.explain import NoSuchKey, below, explain
from shared.dsl.authoring.language import SHAPES
from shared.dsl.authoring.schema import TYPES, schema
from shared.dsl.read import root, steps, task_policy, tasks
from shared.tools import registry
from tests.conformance.stand import todays_books
from tests.conformance.stand.formal_books import BOOKS
from tests.support.examples import PLAYBOOKS

KINDS = registry.specs()
JUDGE = Draft202012Validator(schema(KINDS))


def faults(document: Any) -> list[str]:
    """Where the document does not fit; an empty list when it does."""
    return [f"{each.json_path}: {each.message}" for each in JUDGE.iter_errors(document)]


def canonical(shape: str) -> set[str]:
    return {name for name, key in SHAPES[shape].items() if not key.formal and name not in ("knobs", "*")}


@pytest.mark.parametrize(("shape", "keys"), [
    ("playbook", root.ROOT_KEYS),
    ("metadata", root.METADATA_KEYS),
    ("step", steps.STEP_KEYS),
    ("task", tasks.COMMON_KEYS),
    ("then", task_policy.THEN_KEYS),
    ("task_policy", task_policy.POLICY_KEYS),
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
    with pytest.raises(NoSuchKey, match=near):
        explain(path, KINDS)


@pytest.mark.parametrize("file", PLAYBOOKS, ids=lambda file: file.stem)
def test_examples_fit_the_schema(file: Path) -> None:
    assert faults(yaml.safe_load(file.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("name", BOOKS)
def test_formal_playbooks_fit_the_schema(name: str) -> None:
    assert faults(yaml.safe_load(BOOKS[name].source)) == []


@pytest.mark.parametrize("name", todays_books.BOOKS)
def test_playbooks_of_today_fit_the_schema(name: str) -> None:
    assert faults(yaml.safe_load(todays_books.BOOKS[name].source)) == []


@pytest.mark.parametrize("step", [
    {"tool": {"kind": "container", "image": "a:1", "command": ["x"]}}, {"tool": {"kind": "noop"}, "output": {}},
    {"tool": {"kind": "python", "spec": {"input": {"a": 1}}, "code": "result = a"}},
    {"loop": {"cursor": {"kind": "postgres", "claim": "SELECT 1"}, "iterator": "row",
              "spec": {"mode": "cursor", "frame": 5}}, "tool": {"kind": "noop"}},
    {"tool": {"kind": "http", "url": "http://x/", "spec": {"retry": {"attempts": 2}}}},
])  # fmt: skip
def test_shapes_of_today_fit_the_schema(step: dict[str, Any]) -> None:
    assert faults(playbook(step)) == []


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(schema(KINDS))


def playbook(step: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": {"name": "x"},
            "workflow": [{"step": "start", **step}]}


@pytest.mark.parametrize("step", [
    {"tool": {"kind": "http", "url": "http://localhost/", "args": {}}},
    {"tool": [{"fetch": {"kind": "noop"}}, {"name": "two", "kind": "noop", "spec": {"timeout": {"read": 5}}}]},
    {"tool": {"kind": "noop"}, "spec": {"verify": False, "timeout": 5}},
    {"tool": {"kind": "noop"}, "next": "end"},
    {"tool": {"kind": "noop"}, "next": [{"step": "end"}], "vars": {"a": 1}},
    {"tool": {"kind": "noop"}, "next": {"spec": {"on_no_match": "fail"}, "arcs": [{"step": "start", "cond": "x"}]}},
    {"tool": {"kind": "noop", "assert": {"expects": ["a"]}, "output_select": ["a.b"]}},
    {"tool": {"kind": "noop"}, "spec": {"policy": {"admit": {"join": 3}, "compensate": "undo"}}},
    {"tool": {"kind": "noop"}, "spec": {"policy": {"admit": {"join": "any"}, "compensate": {"step": "undo"}}}},
    {"tool": {"kind": "noop"}, "result": {"store": {"kind": "auto"}, "output_select": ["a"]}},
    {"tool": {"kind": "http", "endpoint": "http://localhost/", "timeout": 5, "retry": {"max_attempts": 2}}},
    {"tool": {"kind": "http", "spec": {"url": "http://localhost/"}}},
    {"tool": {"kind": "noop"},
     "loop": {"in": [1], "iterator": "x", "spec": {"mode": "async", "max_in_flight": "{{ n }}"}}},
])
def test_what_the_compiler_takes_fits_the_schema(step: dict[str, Any]) -> None:
    assert faults(playbook(step)) == []


@pytest.mark.parametrize("part", [
    {"metadata": {"path": "a/b"}, "name": "x"},
    {"keychain": [{"name": "k", "type": "bearer"}]},
    {"executor": {"profile": "auto", "version": "noetl-runtime/1", "requires": {"tools": ["http"]},
                  "spec": {"entry_step": "start", "no_next_is_error": True,
                           "policy": {"defaults": {"timeout_s": 5}}}}},
    {"workflow": [{"step": "start", "next": "a/b"}, {"step": "a/b", "tool": {"kind": "noop"}}]},
    {"spec": {"state": "ready"}, "tracing": {"enabled": True}},
])
def test_todays_roots_fit_the_schema(part: dict[str, Any]) -> None:
    assert faults({**playbook({"tool": {"kind": "noop"}}), **part}) == []


@pytest.mark.parametrize("part", [{"metadata": {}}, {"keychain": [{"name": "k"}]}, {"stages": []}])
def test_roots_that_the_compiler_refuses_do_not_fit(part: dict[str, Any]) -> None:
    assert faults({**playbook({"tool": {"kind": "noop"}}), **part}) != []


@pytest.mark.parametrize("step", [
    {"tool": {"kind": "http"}},
    {"tool": {"kind": "http", "spec": {"params": {}}}},
    {"tool": {"kind": "noop", "output_select": "a"}},
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
    assert faults(playbook(step)) != []
