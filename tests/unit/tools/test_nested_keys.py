"""Keys inside the keys of a task are checked before anything runs."""

import pytest

from shared.dsl.authoring.explain import NoSuchKey, explain
from shared.dsl.authoring.schema import schema
from shared.dsl.compile import compile_playbook
from shared.tools.registry import specs

PLAYBOOK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: p}}
workload: {{table: t, kind: postgres}}
workflow:
  - step: start
    tool:
      kind: transfer
      source: {source}
      target: {target}
"""
SOURCE = "{tool: snowflake, auth: {source: credential, key: sf}, query: SELECT 1}"
TARGET = "{type: postgres, auth: pg, table: t, mode: upsert, mapping: {a: b}}"


def told(source: str = SOURCE, target: str = TARGET) -> list[tuple[str, str, str]]:
    text = PLAYBOOK.format(source=source, target=target)
    compiled = compile_playbook(text.encode(), kinds=specs(), file="p.yaml")
    return [(each.code, each.message, each.fix) for each in compiled.diagnostics]


def test_both_ends_as_people_write_them_are_fine() -> None:
    assert told() == []
    assert told(target="{type: '{{ workload.kind }}', auth: '{{ workload.table }}', table: t, mode: replace}") == []


@pytest.mark.parametrize(("change", "code", "said"), [
    ({"source": "{typ: http}"}, "DSL201", "did you mean type?"),
    ({"source": "snowflake"}, "DSL203", "must be a mapping"),
    ({"source": "{type: postgress, query: SELECT 1}"}, "DSL204", "did you mean postgres?"),
    ({"target": "{type: http, table: t}"}, "DSL204", "one of: postgres, snowflake, duckdb"),
    ({"target": "{type: postgres, table: t, mode: upsrt}"}, "DSL204", "did you mean upsert?"),
    ({"source": "{type: postgres, query: \"SELECT x{{ workload.table }}\"}"}, "DSL604", ""),
])
def test_a_mistake_inside_an_end_is_told_with_its_fix(change: dict[str, str], code: str, said: str) -> None:
    found = [each for each in told(**change) if each[0] == code]
    assert found
    assert any(said in message or said in fix for _, message, fix in found)


def test_an_end_is_needed() -> None:
    text = PLAYBOOK.format(source=SOURCE, target=TARGET).replace("      target", "      tarjet")
    found = compile_playbook(text.encode(), kinds=specs(), file="p.yaml").diagnostics
    assert {each.code for each in found} == {"DSL201", "DSL202"}


def test_they_are_explained_by_their_path() -> None:
    assert explain("transfer.source", specs()).startswith("transfer.source\n\nWhere the rows come from.\nRequired.")
    assert explain("transfer.source.query", specs()).endswith("Each {{ }} in it becomes a bound parameter.")
    assert "Names a credential." in explain("transfer.target.auth", specs())
    assert "One of: append, insert, replace" in explain("transfer.target.mode", specs())
    with pytest.raises(NoSuchKey, match=r"did you mean query\?"):
        explain("transfer.source.qery", specs())


def test_editors_know_them() -> None:
    (of_kind,) = [each["then"] for each in schema(specs())["$defs"]["task"]["allOf"]
                  if each["if"]["properties"]["kind"]["const"] == "transfer"]
    source = of_kind["properties"]["source"]
    assert (source["type"], source["additionalProperties"]) == ("object", False)
    assert "description" in source["properties"]["auth"]


@pytest.mark.parametrize("task", [
    "{kind: snowflake, credential: sf, statement: SELECT 1}", "{kind: snowflake, auth: sf, sql: SELECT 1}",
    "{kind: snowflake, auth: {source: credential, key: sf}, command: SELECT 1}",
    "{kind: ducklake, credential: c, catalog_name: l, sql: SELECT 1}",
    "{kind: ducklake, catalog_connection: x, catalog_name: l, commands: [SELECT 1]}",
])
def test_today_s_names_of_keys_are_known(task: str) -> None:
    head = PLAYBOOK.split("    tool:")[0].format()
    found = compile_playbook(f"{head}    tool: {task}\n".encode(), kinds=specs(), file="p.yaml")
    assert found.diagnostics == ()
