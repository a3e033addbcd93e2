"""Names can be as long as a template makes them: what would break the connection is refused before it is written, and
the task fails with a clear error."""

import json
import time

import pytest

from shared.bus.jetstream import JetStreamBus
from shared.errors import Refused
from tests.support.attacked import as_user, ctl, register, start, unharmed
from tests.support.pool_ctl import Ctl
from tests.support.waiting import wait_until

__all__ = ["ctl", "unharmed"]
HEAD = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: {0}, path: names/{0}}}
workload: {{long: "x"}}
workflow:
"""
TASKS = {
    "path": """  - {step: start, tool: {kind: playbook, path: "{{ 'a/' * 3000 }}"}}""",
    "version": """  - {step: start, tool: {kind: playbook, path: attacked/plain, version: "{{ '1' * 6000 }}"}}""",
    "auth": """  - {step: start, tool: {kind: http, url: "http://127.0.0.1:9/", auth: "{{ 'a' * 6000 }}"}}""",
    "auth_of_sql": """  - {step: start, tool: {kind: postgres, query: "SELECT 1", auth: "{{ 'a/' * 6000 }}"}}""",
    "signal": """  - {step: start, tool: {kind: signal, signal: "{{ 'a' * 6000 }}"}}""",
}


@pytest.mark.parametrize("what", TASKS)
def test_a_task_whose_name_is_too_long_fails_at_once(ctl: Ctl, what: str) -> None:
    register(ctl, what, HEAD.format(what.replace("_", "-")) + TASKS[what])
    began = time.monotonic()
    execution = start(ctl, f"names/{what.replace('_', '-')}")
    wait_until(lambda: ctl.status(execution) in ("failed", "completed"), "it ends", 15.0)
    assert time.monotonic() - began < 15.0
    found = ctl.json("get", execution)
    assert found["status"] == "failed"
    said = json.dumps(found["error"])
    assert "a" * 1000 not in said, "the name itself would fill the log"
    assert found["error"]["kind"], said


def test_a_key_of_a_limit_is_bounded(ctl: Ctl) -> None:
    register(ctl, "limit", HEAD.format("limit") + """\
  - step: start
    spec: {policy: {limits: {key: "{{ 'k' * 6000 }}", max: 1}}}
    tool: {kind: noop}
""")
    execution = start(ctl, "names/limit")
    wait_until(lambda: ctl.status(execution) in ("failed", "completed"), "it ends", 15.0)
    assert ctl.status(execution) == "failed"


def test_the_bus_refuses_what_would_end_its_connection(ctl: Ctl) -> None:
    async def attack(bus: JetStreamBus) -> None:
        before = bus.connections
        long = "x" * 5000
        for work in (
            lambda: bus.append(f"noetl.dlq.{long}", b""),
            lambda: bus.append("noetl.dlq.x", b"", headers={"A": "x" * 1_100_000}),
            lambda: bus.append("noetl.dlq.x", b"x" * 1_100_000),
            lambda: bus.append("noetl.dlq.x", b"x" * 1_040_000, headers={"A": "x" * 20_000}),
            lambda: bus.publish(f"noetl.{long}", b""),
            lambda: bus.publish("noetl.x", b"x" * 1_100_000),
            lambda: bus.subscribe(f"noetl.{long}"),
            lambda: bus.kv_get("noetl_playbooks", long),
            lambda: bus.kv_put("noetl_playbooks", long, b""),
            lambda: bus.kv_delete("noetl_playbooks", long),
            lambda: bus.get("NOETL_RESULTS", f"noetl.results.{long}"),
            lambda: bus.read("NOETL_RESULTS", [f"noetl.results.{long}"]),
            lambda: bus.find("NOETL_RESULTS", f"noetl.results.{long}" * 1000),
            lambda: bus.requests.one(f"$JS.API.{long}"),
            lambda: bus.requests.one("$JS.API.INFO", b"x" * 1_100_000),
            lambda: bus.consume(long, "router", 1),
        ):
            with pytest.raises(Refused):
                await work()
        with pytest.raises(Refused):
            await bus.follow("NOETL_RESULTS", [f"noetl.{long}"], 0).batch()
        assert bus.connections == before
        assert await bus.time() > 0

    as_user(ctl, "admin", attack)
