"""What every tool promises, whatever its kind."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from aiohttp import web

from shared.tools.contract import Call
from shared.tools.registry import specs
from tests.support.calls import call

KINDS = sorted(specs())


class Example(msgspec.Struct):
    """Calls of one kind. A kind that never waits has no `slow`, one that cannot fail no `fails`."""

    good: Call
    fails: Call | None
    slow: Callable[[float], Call] | None


@pytest.fixture
def examples(site, database: str) -> Mapping[str, Example]:
    good_url = site.on("/good", lambda: web.json_response({"a": 1}))
    bad_url = site.on("/bad", lambda: web.json_response({"a": 1}, status=500))
    hang_url = site.hang("/hang")
    nap = "import time\ntime.sleep(60)"
    endless = "SELECT count(*) FROM range(1000000000000) a, range(1000) b"

    def slow(config: dict[str, Any], auth: dict[str, Any] | None = None) -> Callable[[float], Call]:
        return lambda limit: call(config, auth=auth, timeout_s=limit)

    pg = {"dsn": database}
    return {
        "noop": Example(call({"args": {"a": 1}}), None, None),
        "http": Example(call({"url": good_url}), call({"url": bad_url}), slow({"url": hang_url})),
        "python": Example(call({"code": "result = {'a': 1}"}), call({"code": "1/0"}), slow({"code": nap})),
        "postgres": Example(
            call({"command": "SELECT 1 AS a"}, auth=pg), call({"command": "SELECT 1/0"}, auth=pg),
            slow({"command": "SELECT pg_sleep(60)"}, pg),
        ),
        "duckdb": Example(
            call({"command": "SELECT 1 AS a"}), call({"command": "SELECT x FROM nowhere"}),
            slow({"command": endless}),
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
