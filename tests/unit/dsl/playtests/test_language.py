"""The table of a test's keys, and what is made of it: the schema and the explanations."""

from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from services.cli.playbooks.init_templates import TEST as INIT
from shared.dsl.authoring.explain import below, explain
from shared.dsl.authoring.language import SHAPES
from shared.dsl.authoring.schema import TYPES, schema_of_tests
from shared.dsl.authoring.test_language import TEST_SHAPES
from shared.dsl.playtests import model as playtest
from shared.tools import registry
from tests.support.examples import TESTS
from tests.unit.answers.playtests.lab import TEST

JUDGE = Draft202012Validator(schema_of_tests())


def fits(document: Any) -> bool:
    return not list(JUDGE.iter_errors(document))


@pytest.mark.parametrize(("shape", "keys"), [
    ("test", playtest.ROOT_KEYS), ("test_case", playtest.CASE_KEYS), ("mock", playtest.MOCK_KEYS),
    ("mock_outcome", playtest.OUTCOME_KEYS), ("test_signal", playtest.SIGNAL_KEYS),
    ("test_cancel", playtest.CANCEL_KEYS), ("expect", playtest.EXPECT_KEYS), ("step_expect", playtest.STEP_KEYS),
    ("elapsed", playtest.ELAPSED_KEYS),
])
def test_the_table_has_the_keys_that_are_read(shape: str, keys: tuple[str, ...]) -> None:
    assert set(TEST_SHAPES[shape]) == set(keys)


def test_every_key_has_a_known_type_and_one_line_of_documentation() -> None:
    assert not set(TEST_SHAPES) & set(SHAPES)
    for shape in TEST_SHAPES.values():
        for key in shape.values():
            word = key.type.strip("[]")
            assert word in TYPES or word[1:] in TEST_SHAPES
            assert key.doc.endswith(".")
            assert "\n" not in key.doc


def paths(shape: str, at: str) -> list[str]:
    found = []
    for name, key in TEST_SHAPES[shape].items():
        found.append(f"{at}{name}")
        inner = below(key)
        found += paths(inner, f"{at}{name}.") if inner else []
    return found


@pytest.mark.parametrize("path", ["test", "mock", "expect", *paths("test", "test.")])
def test_every_key_is_explained(path: str) -> None:
    assert len(explain(path, registry.specs()).splitlines()) >= 3


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(schema_of_tests())


@pytest.mark.parametrize("file", TESTS, ids=lambda file: file.stem)
def test_the_tests_of_the_examples_fit_the_schema(file: Any) -> None:
    assert fits(yaml.safe_load(file.read_text(encoding="utf-8")))


def test_what_init_writes_fits_the_schema() -> None:
    assert fits(yaml.safe_load(INIT.format(schema="x", name="first")))


@pytest.mark.parametrize("part", [
    "{name: a, mocks: [{step: s, error: x}], expect: {elapsed: 30s}}",
    "{name: a, mocks: [{step: s, outcome: {status: ok}, after: 5}], expect: {elapsed: {least: 1}}}",
    "{name: a, signals: [{name: x, at: 1h}], cancel: {at: 1}, expect: {calls: {a.b: 0}, steps: {a: {runs: 1}}}}",
])
def test_what_is_read_fits_the_schema(part: str) -> None:
    assert fits(yaml.safe_load(f"{TEST}cases: [{part}]"))


@pytest.mark.parametrize("part", [
    "{mocks: []}", "{name: a, mocks: [{step: s}]}", "{name: a, mocks: [{step: s, result: 1, error: x}]}",
    "{name: a, mocks: [{result: 1}]}", "{name: a, expect: {status: done}}", "{name: a, expect: {steps: {a: {x: 1}}}}",
    "{name: a, order: maybe}", "{name: a, expect: {calls: {a: -1}}}", "{name: a, other: 1}",
])
def test_what_is_refused_does_not_fit_the_schema(part: str) -> None:
    assert not fits(yaml.safe_load(f"{TEST}cases: [{part}]"))
