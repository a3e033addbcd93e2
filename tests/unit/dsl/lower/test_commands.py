"""Playbooks that read `command_0` of a SQL task get the result of each statement."""

from typing import Any

import pytest

from shared.dsl.compile import compile_playbook
from shared.tools import registry
from tests.support.playbooks import head

HEAD = head("a") + "workflow:\n"


def _results(sql: str, reader: str) -> Any:
    source = (f"{HEAD}  - step: start\n    tool: {{kind: postgres, auth: pg, {sql}}}\n    next: [then]\n"
              f"  - step: then\n    tool: {{kind: python, {reader}}}\n")
    compiled = compile_playbook(source, kinds=registry.specs())
    assert compiled.plan is not None, compiled.diagnostics
    return compiled.plan.steps["start"].tasks[0].config.get("results")


@pytest.mark.parametrize(("sql", "reader", "found"), [
    ("command: SELECT 1", "code: result = 1", None),
    ("command: SELECT 1", "args: {a: '{{ start.command_0.rows }}'}, code: result = a", "all"),
    ("query: SELECT 1", "args: {a: '{{ start }}'}, code: \"result = a.get('command_12')\"", "all"),
    ("command: SELECT 1", "code: result = my_command_x", None),
    ("command: SELECT 1, results: last", "code: command_0 = 1", "last"),
    ("table: t, args: {a: 1}", "code: command_0 = 1", None),
])
def test_results_of_all_statements_are_asked_for_where_one_is_read(sql: str, reader: str, found: Any) -> None:
    assert _results(sql, reader) == found
