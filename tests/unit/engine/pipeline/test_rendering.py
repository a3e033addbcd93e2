"""The keys of a task as its tool gets them."""

from typing import Any

import pytest

from shared.dsl.model.tool_spec import KeySpec
from shared.dsl.templates.sql import Sql
from shared.engine.pipeline.rendering import Rendered

END = {"auth": KeySpec("", credential=True), "query": KeySpec("", sql=True), "table": KeySpec("")}
KEYS = {"source": KeySpec("", fields=END), "commands": KeySpec("", sql=True), "code": KeySpec("", template=False),
        "plain": KeySpec("")}
NAMES = {"name": "pg_main", "n": 5, "rows": [1]}


def rendered(config: dict[str, Any]) -> Rendered:
    return Rendered(config, KEYS, NAMES)


def test_keys_inside_a_mapping_are_what_their_specs_say() -> None:
    found = rendered({"source": {"table": "t_{{ n }}", "query": "SELECT {{ n }}", "more": "{{ rows }}"}})
    assert found.config == {"source": {"table": "t_5", "query": Sql("SELECT $1", [5]), "more": [1]}}
    assert found.credentials == {}


@pytest.mark.parametrize("auth", [
    "{{ name }}", {"source": "credential", "tool": "postgres", "key": "{{ name }}"},
    {"type": "x", "credential": "pg_main"},
])
def test_what_names_a_credential_is_kept_apart(auth: Any) -> None:
    found = rendered({"source": {"auth": auth, "table": "t"}})
    assert found.config == {"source": {"table": "t"}}
    assert found.credentials == {"source.auth": "pg_main"}


def test_a_credential_may_be_written_out() -> None:
    assert rendered({"source": {"auth": {"host": "h"}}}).credentials == {"source.auth": {"host": "h"}}


def test_every_text_of_a_list_of_statements_is_bound() -> None:
    found = rendered({"commands": ["SELECT {{ n }}", "SELECT 1"]})
    assert found.config == {"commands": [Sql("SELECT $1", [5]), Sql("SELECT 1", [])]}


def test_program_text_is_never_rendered() -> None:
    assert rendered({"code": "{{ n }}", "plain": "{{ n }}"}).config == {"code": "{{ n }}", "plain": 5}
