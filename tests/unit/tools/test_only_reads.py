"""Which calls only read: what cannot be proved from the task as it is written has an effect."""

from typing import Any

import pytest

from shared.tools import registry


def reads(kind: str, config: dict[str, Any], **spec: Any) -> bool:
    found = registry.specs()[kind].reads
    return found is not None and found(config, spec)


@pytest.mark.parametrize("config", [
    {"url": "http://x/"}, {"url": "{{ u }}", "params": {"page": "{{ n }}"}}, {"method": "get"}, {"method": "HEAD"},
    {"headers": {"Accept": "{{ a }}"}}, {"method": None, "json": None},
])
def test_a_get_or_head_without_a_body_reads(config: dict[str, Any]) -> None:
    assert reads("http", config)
    assert not reads("http", config, read_only=False)


@pytest.mark.parametrize("config", [
    {"method": method} for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "{{ method }}")
] + [{key: "{{ x }}"} for key in ("json", "body", "data", "payload")] + [
    {"json": {}}, {"headers": "{{ h }}"}, {"headers": {"X-HTTP-Method-Override": "PUT"}}, {"headers": {"{{ n }}": "x"}},
])
def test_another_request_does_unless_its_author_says_so(config: dict[str, Any]) -> None:
    assert not reads("http", config)
    assert not reads("http", config, read_only="{{ yes }}")
    assert reads("http", config, read_only=True)


def test_sql_reads_where_the_server_refuses_to_write() -> None:
    select = {"command": "SELECT 1"}
    assert not reads("postgres", select)
    assert not reads("postgres", select, read_only="{{ true }}")
    assert reads("postgres", select, read_only=True)
    assert not reads("duckdb", select)
    assert not reads("snowflake", select)


@pytest.mark.parametrize(("kind", "reading", "writing"), [
    ("nats", {"kv_get", "js_get_msg"}, {"kv_put", "kv_keys", "object_get", "publish", "request", "{{ o }}"}),
    ("gcs", {"get", "download", "list", "exists"}, {"put", "upload", "delete", "copy", "{{ o }}"}),
])
def test_operations_that_the_tool_itself_knows_to_read(kind: str, reading: set[str], writing: set[str]) -> None:
    assert all(reads(kind, {"operation": name}) for name in reading)
    assert not any(reads(kind, {"operation": name}) for name in writing)


def test_a_kind_that_runs_what_its_author_wrote_never_reads() -> None:
    assert {kind for kind, spec in registry.specs().items() if spec.reads is not None} == {
        "artifact", "gcs", "http", "nats", "postgres", "secrets"}
