"""What the keys of `kind: gcs` say, and which of them go together."""

from typing import Any

import pytest

from shared.dsl.compile import compile_playbook
from shared.tools.base.contract import Tool, ToolOptions
from shared.tools.base.guard import BadCall, TooLarge
from shared.tools.gcs import data as gcs_data
from shared.tools.gcs import tool as gcs
from shared.tools.gcs.data import Object
from shared.tools.registry import open_tool, specs
from tests.support.calls import call

PLAYBOOK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: p}}
workload: {{day: monday}}
workflow:
  - step: start
    tool: {tool}
"""


def told(tool: str) -> list[tuple[str, str]]:
    found = compile_playbook(PLAYBOOK.format(tool=tool).encode(), kinds=specs(), file="p.yaml").diagnostics
    return [(each.code, each.fix) for each in found]


@pytest.mark.parametrize("tool", [
    "{kind: gcs, operation: upload, auth: g, bucket: b-1, object: 'x/{{ workload.day }}', data: '{{ workload }}'}",
    "{kind: gcs, action: get, uri: 'gs://b-1/x', as: json, endpoint: 'http://localhost:9023'}",
    "{kind: gcs, operation: list, credential: g, bucket: b-1, prefix: x/, max_results: 10}",
])
def test_a_task_as_people_write_it_compiles(tool: str) -> None:
    assert told(tool) == []


@pytest.mark.parametrize(("tool", "code", "said"), [
    ("{kind: gcs, uri: 'gs://b-1/x'}", "DSL202", "operation"),
    ("{kind: gcs, operation: uplaod, uri: 'gs://b-1/x'}", "DSL204", "did you mean upload?"),
    ("{kind: gcs, operation: get, uri: 'gs://b-1/x', as: xml}", "DSL204", "text, json, base64"),
    ("{kind: gcs, operation: get, uri: 'gs://b-1/x', buckett: b}", "DSL201", "bucket"),
])
def test_a_mistake_is_told_with_its_fix(tool: str, code: str, said: str) -> None:
    assert any(found == code and said in fix for found, fix in told(tool)), told(tool)


@pytest.mark.parametrize("config", [
    {"uri": "gs://b-1/x/y"}, {"bucket": "b-1", "object": "x/y"}, {"bucket": "b-1", "path": "x/y"},
    {"bucket": "b-1", "key": "x/y"}, {"path": "gs://b-1/x/y"}, {"bucket": "b-1", "uri": "gs://b-1/x/y"},
])
def test_an_object_is_named_in_several_ways(config: dict[str, Any]) -> None:
    assert gcs_data.object_of(call(config)) == Object("b-1", "x/y")


@pytest.mark.parametrize("config", [
    {}, {"bucket": "b-1"}, {"object": "x"}, {"uri": "x/y"}, {"uri": "s3://b-1/x"}, {"uri": "gs://b-1"},
    {"uri": "gs://b-1/"}, {"bucket": "b-2", "uri": "gs://b-1/x"}, {"bucket": "b-1", "object": "x", "path": "x"},
    {"bucket": "b-1", "object": ".."}, {"bucket": "b-1", "object": "a\nb"}, {"bucket": "b-1", "object": 5},
    {"bucket": "B", "object": "x"}, {"bucket": "b/..", "object": "x"}, {"bucket": "b-1", "object": "é" * 513},
])
def test_what_names_no_object_is_a_mistake(config: dict[str, Any]) -> None:
    with pytest.raises(BadCall):
        gcs_data.object_of(call(config))


def test_a_name_may_have_1024_bytes() -> None:
    assert gcs_data.object_of(call({"bucket": "b-1", "object": "é" * 512})).name == "é" * 512


@pytest.mark.parametrize(("given", "to"), [("y", "gs://b-1/y"), ("gs://b-2/y", "gs://b-2/y")])
def test_a_copy_goes_to_a_name_or_an_address(given: str, to: str) -> None:
    assert gcs_data.destination_of(call({"destination": given}), "b-1").uri == to


@pytest.mark.parametrize("config", [
    {}, {"data": "a", "value": "b"}, {"data": {"a": 1}, "encoding": "text"}, {"data": 1, "encoding": "base64"},
    {"data": "a", "encoding": "xml"}, {"data": "a", "content_type": "a\r\nb: c"}, {"data": "a", "content_type": 5},
    {"data": "a", "encoding": "text", "as": "json"},
])
def test_a_content_that_cannot_be_sent_is_a_mistake(config: dict[str, Any]) -> None:
    with pytest.raises(BadCall):
        gcs_data.content(call(config))


@pytest.mark.parametrize(("kind", "encoding"), [
    ("application/json; charset=utf-8", "json"), ("application/problem+json", "json"), ("text/csv", "text"),
    ("image/svg+xml", "text"), ("application/x-ndjson", "text"), ("application/octet-stream", "base64"), ("", "base64"),
])
def test_the_content_type_says_how_an_object_is_read(kind: str, encoding: str) -> None:
    assert gcs_data.decoded(b"{}", kind, None)[0] == encoding


def test_metadata_is_text_and_bounded() -> None:
    assert gcs_data.custom(call({"metadata": {"a": 1, "b": True, "c": None, "d": "x"}})) == {
        "a": "1", "b": "true", "d": "x"}
    assert gcs_data.custom(call({"metadata": {"a": "x" * (gcs_data.MAX_METADATA - 1)}}))
    with pytest.raises(TooLarge):
        gcs_data.custom(call({"metadata": {"a": "x" * gcs_data.MAX_METADATA}}))


@pytest.fixture
async def tool() -> Any:
    made: Tool = open_tool("gcs", ToolOptions())
    yield made
    await made.close()


@pytest.mark.parametrize("config", [
    {"operation": "rename"}, {"operation": "get", "action": "get"},
    {"operation": "get", "uri": "gs://b-1/x", "if_absent": True},
    {"operation": "list", "bucket": "b-1", "data": "x"}, {"operation": "list", "uri": "gs://b-1/x"},
    {"operation": "list", "bucket": "b-1", "max_results": gcs_data.MAX_LISTED + 1},
    {"operation": "list", "bucket": "b-1", "max_results": 0}, {"operation": "list", "bucket": "b-1", "prefix": 1},
    {"operation": "copy", "uri": "gs://b-1/x"}, {"operation": "get", "uri": "gs://b-1/x", "endpoint": "ftp://a"},
    {"operation": "get", "uri": "gs://b-1/x", "endpoint": "http://me:pass@a"},
    {"operation": "get", "uri": "gs://b-1/x", "endpoint": "http://["},
])
async def test_keys_that_do_not_go_together_are_refused_before_anything_is_sent(
    tool: Tool, config: dict[str, Any],
) -> None:
    outcome = await tool.run(call(config))
    assert outcome.error["kind"] == "config"  # type: ignore[union-attr]


def test_every_operation_says_which_keys_it_takes() -> None:
    from shared.tools.gcs.operations import OPERATIONS

    assert gcs.KEYS.keys() == OPERATIONS.keys()
    assert set().union(*gcs.KEYS.values()) | {"operation", "action", "endpoint", "auth"} == gcs.SPEC.keys.keys()
