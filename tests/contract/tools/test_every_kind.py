"""What every tool promises, whatever its kind."""

import asyncio
import base64
import re
import time
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import msgspec
import nats
import pytest
from aiohttp import web

from shared.dsl.templates.result_view import view
from shared.events.outcome import Result
from shared.tools.base.contract import Call
from shared.tools.quantum.circuit import MAX_GATES, MAX_QUBITS
from shared.tools.registry import specs
from tests.support.calls import call
from tests.support.documents import tables
from tests.support.servers.gcs import BUCKET
from tests.support.servers.kube import Kube
from tests.support.servers.own_nats import OwnNats
from tests.support.servers.snowflake import CREDENTIAL

# They make no call of their own: tests/unit/tools/flow/ has test_waiting_kinds.py and test_secrets_kind.py.
CALLLESS = {"playbook", "wait", "signal", "secrets"}
KINDS = sorted(specs().keys() - CALLLESS)


class Example(msgspec.Struct):
    """Calls of one kind. A kind that never waits has no `slow`, one that cannot fail no `fails`."""

    good: Call
    fails: Call | None
    slow: Callable[[float], Call] | None


@pytest.fixture
async def silent(own_nats: OwnNats) -> AsyncIterator[dict[str, str]]:
    """A server with a listener that never answers."""
    credential = own_nats.credential()
    client = await nats.connect(credential["url"], user=credential["user"], password=credential["password"])
    await client.subscribe("silence")
    await client.flush()
    yield credential
    await client.close()


@pytest.fixture
def examples(
    site, kube: Kube, database: str, gcs: str, store, silent: dict[str, str], tmp_path, request
) -> Mapping[str, Example]:
    if request.node.callspec.params["kind"] == "snowflake":
        request.getfixturevalue("snow")
    good_url = site.on("/good", lambda: web.json_response({"a": 1}))
    bad_url = site.on("/bad", lambda: web.json_response({"a": 1}, status=500))
    hang_url = site.hang("/hang")
    nap = "import time\ntime.sleep(60)"
    endless = "SELECT count(*) FROM range(1000000000000) a, range(1000) b"
    generated = "SELECT COUNT(*) FROM TABLE(GENERATOR(ROWCOUNT => 1000000000)) a, TABLE(GENERATOR(ROWCOUNT => 1000)) b"
    lake = {"catalog_connection": str(tmp_path / "lake"), "catalog_name": "lab", "data_path": str(tmp_path / "data")}
    file = {"type": "duckdb", "database": str(tmp_path / "to.duckdb"), "query": "SELECT $1"}

    kept = [[MAX_QUBITS, [["h", [each % MAX_QUBITS]] for each in range(MAX_GATES)], [0]], 1, 1]
    long_job = "local:" + base64.urlsafe_b64encode(zlib.compress(msgspec.json.encode(kept))).decode()

    def slow(config: dict[str, Any], auth: dict[str, Any] | None = None) -> Callable[[float], Call]:
        return lambda limit: call(config, auth=auth, timeout_s=limit)

    def rows(query: str) -> dict[str, Any]:
        return {"type": "postgres", "connection": database, "query": query}

    def image(name: str) -> dict[str, Any]:
        return {"runtime": {"image": name}}

    def program(name: str) -> dict[str, Any]:
        return {"code": "print(1)", "job": {"image": name}}

    def stored(operation: str, server: str) -> dict[str, Any]:
        return {"operation": operation, "endpoint": server, "uri": f"gs://{BUCKET}/a"}

    site.hang(f"/storage/v1/b/{BUCKET}/o/a")
    pg, cluster = {"dsn": database}, kube.credential
    return {
        "container": Example(call(image("good"), auth=cluster), call(image("bad"), auth=cluster, key="e/s:1/bad/1"),
                             lambda limit: call(image("slow"), auth=cluster, timeout_s=limit, key="e/s:1/slow/1")),
        "script": Example(call(program("good"), auth=cluster), call(program("bad"), auth=cluster, key="e/s:1/bad/1"),
                          lambda limit: call(program("slow"), auth=cluster, timeout_s=limit, key="e/s:1/slow/1")),
        "noop": Example(call({"args": {"a": 1}}), None, None),
        "http": Example(call({"url": good_url}), call({"url": bad_url}), slow({"url": hang_url})),
        "python": Example(call({"code": "result = {'a': 1}"}), call({"code": "1/0"}), slow({"code": nap})),
        "postgres": Example(
            call({"command": "SELECT 1 AS a"}, auth=pg), call({"command": "SELECT 1/0"}, auth=pg),
            slow({"command": "SELECT pg_sleep(60)"}, pg),
        ),
        "shell": Example(call({"cmd": "echo a"}), call({"cmd": "exit 3"}), slow({"cmd": "sleep 60"})),
        "artifact": Example(
            call({"result_ref": store.put({"a": 1})}), call({"result_ref": store.put("gone", lost=True)}),
            slow({"result_ref": store.put(1, slow=True)}),
        ),
        "nats": Example(
            call({"operation": "publish", "subject": "any", "value": {"a": 1}}, auth=silent),
            call({"operation": "kv_get", "bucket": "nowhere", "key": "a"}, auth=silent),
            slow({"operation": "request", "subject": "silence"}, silent),
        ),
        "duckdb": Example(
            call({"command": "SELECT 1 AS a"}), call({"command": "SELECT x FROM nowhere"}),
            slow({"command": endless}),
        ),
        "ducklake": Example(
            call({**lake, "command": "SELECT 1 AS a"}), call({**lake, "command": "SELECT x FROM nowhere"}),
            slow({**lake, "command": endless}),
        ),
        "snowflake": Example(
            call({"command": "SELECT 1 AS a"}, auth=CREDENTIAL),
            call({"command": "SELECT x FROM nowhere"}, auth=CREDENTIAL), slow({"command": generated}, CREDENTIAL),
        ),
        "gcs": Example(
            call({**stored("upload", gcs), "data": {"a": 1}}),
            call({**stored("download", gcs), "uri": f"gs://{BUCKET}/nowhere"}),
            slow(stored("download", str(site.server.make_url("/")))),
        ),
        "quantum": Example(
            call({"circuit": {"qubits": 1, "gates": [{"gate": "h", "qubits": [0]}]}}),
            call({"op": "status", "job_id": "local:nothing"}), slow({"op": "results", "job_id": long_job}),
        ),
        "transfer": Example(
            call({"source": rows("SELECT 1 AS a"), "target": file}),
            call({"source": rows("SELECT 1/0 AS a"), "target": file}),
            slow({"source": rows("SELECT 1 AS a, pg_sleep(60)"), "target": file}),
        ),
    }


def _example(examples: Mapping[str, Example], kind: str) -> Example:
    assert kind in examples, f"the kind {kind} has no example calls here: add them"
    return examples[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_is_documented(kind: str) -> None:
    spec = specs()[kind]
    assert spec.kind == kind
    assert spec.doc.endswith(".")
    assert all(key.doc.endswith(".") for key in (*spec.keys.values(), *spec.knobs.values()))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_good_call_gives_an_outcome_json_can_hold(kind: str, examples, opened) -> None:
    outcome = await opened(kind).run(_example(examples, kind).good)
    assert (outcome.status, outcome.error) == ("ok", None)
    assert msgspec.json.decode(msgspec.json.encode(outcome), type=type(outcome)) == outcome


@pytest.mark.parametrize("kind", KINDS)
async def test_a_result_has_the_shape_that_is_documented(kind: str, examples, opened) -> None:
    """In docs/templates.md; a row without braces stands for any value."""
    outcome = await opened(kind).run(_example(examples, kind).good)
    (result, payload), = [row[1:] for row in tables.rows("templates.md", "Results") if kind in tables.names(row[0])]
    shape = re.match(r"`\{(.*)\}`", result)
    if shape is not None:
        wanted, found = set(shape[1].split(", ")), set(outcome.result)
        assert wanted <= found if "adds" in result else wanted == found
    seen = view(Result(outcome.result, outcome.shape))
    assert seen.payload == (outcome.result if payload == "the same" else outcome.result[payload.strip("`")])


def test_every_kind_has_a_shape_that_is_documented() -> None:
    found = [name for row in tables.rows("templates.md", "Results") for name in tables.names(row[0])]
    assert sorted(found) == sorted(specs())


@pytest.mark.parametrize("kind", KINDS)
async def test_a_failed_call_says_kind_message_and_whether_to_retry(kind: str, examples, opened) -> None:
    example = _example(examples, kind)
    if example.fails is None:
        assert specs()[kind].pure
        return
    outcome = await opened(kind).run(example.fails)
    assert outcome.status == "error"
    assert outcome.error is not None
    assert outcome.error["kind"]
    assert outcome.error["message"]
    assert isinstance(outcome.error["retryable"], bool)
    assert msgspec.json.decode(msgspec.json.encode(outcome), type=type(outcome)) == outcome


@pytest.mark.parametrize("kind", KINDS)
async def test_a_call_over_its_time_is_a_timeout(kind: str, examples, opened) -> None:
    example = _example(examples, kind)
    if example.slow is None:
        assert specs()[kind].pure
        return
    started = time.monotonic()
    outcome = await opened(kind).run(example.slow(0.5))
    assert outcome.error is not None
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("timeout", True)
    assert time.monotonic() - started < 4


@pytest.mark.parametrize("kind", KINDS)
async def test_a_cancelled_call_ends_and_the_tool_goes_on(kind: str, examples, opened) -> None:
    example = _example(examples, kind)
    if example.slow is None:
        assert specs()[kind].pure
        return
    tool = opened(kind)
    running = asyncio.create_task(tool.run(example.slow(60)))
    await asyncio.sleep(0.6)
    started = time.monotonic()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert time.monotonic() - started < 4
    assert (await tool.run(example.good)).status == "ok"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_spec_timeout_shorter_than_the_run_wins(kind: str, examples, opened) -> None:
    example = _example(examples, kind)
    if example.slow is None:
        assert specs()[kind].pure
        return
    slow = msgspec.structs.replace(example.slow(60), spec={"timeout": 0.4})
    outcome = await opened(kind).run(slow)
    assert outcome.error is not None
    assert outcome.error["kind"] == "timeout"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_call_without_its_keys_is_a_mistake_not_a_crash(kind: str, opened) -> None:
    outcome = await opened(kind).run(call({}))
    if specs()[kind].pure:
        assert outcome.status == "ok"
        return
    assert outcome.error is not None
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("config", False)
