"""A wait that the playbook does not have is told, whoever obeyed it."""

from typing import Any

import pytest
from msgspec.structs import replace

from shared.answers.history.history import History
from shared.answers.verify.waits_and_limits import check_asked
from shared.engine.leases.lease_fit import child_of
from shared.events import model as ev
from shared.events.record import Lease, Record
from shared.events.stamp import stamp
from tests.unit.engine.support import NOW, plan_of

RETRIES = 'spec: {policy: {rules: [{when: "{{ true }}", then: {do: retry, attempts: 3, delay: 60}}]}}'
LEASE = Lease("start:1", "start", (1, 1), "w", pool="default")


def told(tool: str, **asked: Any) -> list[str]:
    plan = plan_of(f"- step: start\n  tool: {{name: call, {tool}}}\n")
    wait = ev.TaskWaiting(**{"task": "call", "attempt": 1, "wait": "call/1", **asked})
    if wait.child is not None:
        wait = replace(wait, child=replace(wait.child, execution_id=child_of("x", LEASE, "call/1")))
    scheduled = ev.StepScheduled("start:1", "start", ("t1",), plan.digest, "default")
    entries = [(1, Record("x", "router", 1, stamp(NOW), (scheduled,))),
               (2, Record("x", "waiting", 1, stamp(NOW), (ev.StepStarted(), wait), lease=LEASE))]
    return [found.message for found in check_asked(History("x", entries), lambda _: plan)]


def child(path: str = "sub/book", **fields: Any) -> ev.Child:
    return ev.Child("c", path, **fields)


@pytest.mark.parametrize(("tool", "asked"), [
    ("kind: playbook, path: sub/book", {"child": child(payload={"n": 1})}),
    ("kind: playbook, path: sub/book, version: 2, return_step: end", {"child": child(version="2", returns="end")}),
    ("kind: playbook, path: sub/book, mode: detached", {"child": child(detached=True)}),
    ("kind: playbook, path: \"{{ workload.p }}\"", {"child": child("any")}),
    ("kind: signal, signal: go", {"signal": "go"}),
    ("kind: wait, for: 5", {"until": stamp(NOW)}),
    ("kind: noop, " + RETRIES, {"pause": True, "until": stamp(NOW)}),
])
def test_a_wait_of_the_playbook_is_none_to_tell(tool: str, asked: dict[str, Any]) -> None:
    assert told(tool, **asked) == []


@pytest.mark.parametrize(("tool", "asked", "why"), [
    ("kind: noop", {"child": child()}, "it is of kind noop"),
    ("kind: noop", {"until": stamp(NOW)}, "it is of kind noop"),
    ("kind: noop", {"pause": True, "until": stamp(NOW)}, "it is not tried again"),
    ("kind: noop", {"task": "other", "signal": "go"}, "its step has no such task"),
    ("kind: wait, for: 5", {"signal": "go"}, "it is of kind wait"),
    ("kind: signal, signal: go", {"signal": "stop"}, "signal is 'go', and not 'stop'"),
    ("kind: playbook, path: sub/book", {"until": stamp(NOW)}, "it is of kind playbook"),
    ("kind: playbook, path: sub/book", {"child": child("t/secret")}, "path is 'sub/book', and not 't/secret'"),
    ("kind: playbook, path: sub/book", {"child": child(version="1")}, "version is None, and not '1'"),
    ("kind: playbook, path: sub/book", {"child": child(returns="end")}, "return_step is None, and not 'end'"),
    ("kind: playbook, path: sub/book", {"child": child(detached=True)}, "mode is sync"),
    ("kind: playbook, path: sub/book, mode: detached", {"child": child()}, "mode is detached"),
])
def test_any_other_is_told(tool: str, asked: dict[str, Any], why: str) -> None:
    (found,) = told(tool, **asked)
    assert found.endswith(f"waits as the playbook does not say: {why}")
