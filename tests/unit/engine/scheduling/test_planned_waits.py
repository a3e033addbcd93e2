"""What a wait may ask for follows from the plan: the rest is refused, and starts nothing."""

from typing import Any

import pytest

from shared.dsl.model.plan import Plan
from shared.engine.leases.lease_fit import child_of
from shared.engine.scheduling.core import SchedulerCore
from shared.engine.scheduling.planned_waits import WAITS, refusal
from shared.events import model as ev
from shared.events.record import Lease, Record
from shared.events.request import Request
from shared.events.stamp import stamp
from shared.tools import registry
from tests.unit.engine.support import NOW, plan_of

LEASE = Lease("start:1", "start", (1, 1), "w", pool="default")
LATER = stamp(NOW + 60)
BOOK = "- step: start\n  tool: {name: call, TOOL}\n"
RETRIES = 'spec: {policy: {rules: [{when: "{{ true }}", then: {do: retry, attempts: 3, delay: 60}}]}}'


def plan(tool: str) -> Plan:
    return plan_of(BOOK.replace("TOOL", tool))


def waits(**asked: Any) -> ev.TaskWaiting:
    return ev.TaskWaiting(**{"task": "call", "attempt": 1, "wait": "call/1", **asked})


def child(path: str = "sub/book", **fields: Any) -> dict[str, Any]:
    return {"child": ev.Child(child_of("x", LEASE, "call/1"), path, **fields)}


def test_every_kind_that_waits_is_known_by_what_it_waits_for() -> None:
    assert {kind for kind, spec in registry.specs().items() if spec.waits} == set(WAITS)


@pytest.mark.parametrize(("tool", "asked"), [
    ("kind: playbook, path: sub/book", child()),
    ("kind: playbook, path: sub/book", child(payload={"any": 1}, iter={"item": 2})),
    ("kind: playbook, path: sub/book", {**child(), "until": LATER}),
    ("kind: playbook, path: sub/book, mode: sync", child()),
    ("kind: playbook, path: sub/book, mode: detached", child(detached=True)),
    ("kind: playbook, path: sub/book, mode: \"{{ workload.m }}\"", child(detached=True)),
    ("kind: playbook, path: sub/book, version: 2, return_step: end", child(version="2", returns="end")),
    ("kind: playbook, path: sub/book, version: \"{{ workload.v }}\"", child(version="7")),
    ("kind: playbook, path: \"{{ workload.p }}\"", child("any/book")),
    ("kind: playbook, path: \"sub/{{ workload.p }}/v{{ workload.n }}\"", child("sub/some/v2")),
    ("kind: playbook, path: \" sub/{{- workload.p -}} \"", child("sub/some")),
    ("kind: signal, signal: go", {"signal": "go", "schema": {"type": "object"}}),
    ("kind: signal, signal: go", {"signal": "go", "until": LATER}),
    ("kind: signal, signal: \"go-{{ workload.p }}\"", {"signal": "go-3"}),
    ("kind: wait, for: 5", {"until": LATER}),
    ("kind: noop, " + RETRIES, {"pause": True, "wait": "call/2/pause", "attempt": 2, "until": LATER}),
    ("kind: playbook, path: sub/book, " + RETRIES, {"pause": True, "until": LATER}),
])
def test_what_the_task_says_it_may_wait_for(tool: str, asked: dict[str, Any]) -> None:
    assert refusal(plan(tool).steps["start"], waits(**asked)) == ""


REFUSED = [
    ("kind: noop", child(), "task call is of kind noop, and does not wait for a playbook"),
    ("kind: noop", {"signal": "go"}, "task call is of kind noop, and does not wait for a signal"),
    ("kind: noop", {"until": LATER}, "task call is of kind noop, and does not wait for a time"),
    ("kind: noop", {"pause": True, "until": LATER}, "task call has no further attempt to pause before"),
    ("kind: noop", {**child(), "task": "other"}, "step 'start' has no task 'other'"),
    ("kind: wait, for: 5", child(), "task call is of kind wait, and does not wait for a playbook"),
    ("kind: signal, signal: go", child(), "task call is of kind signal, and does not wait for a playbook"),
    ("kind: signal, signal: go", {"until": LATER}, "task call is of kind signal, and does not wait for a time"),
    ("kind: signal, signal: go", {"signal": "stop"}, "task call has signal 'go', not 'stop'"),
    ("kind: signal, signal: \"go-{{ workload.p }}\"", {"signal": "stop-3"},
     "task call has signal 'go-{{ workload.p }}', not 'stop-3'"),
    ("kind: playbook, path: sub/book", {"until": LATER}, "task call is of kind playbook, and does not wait for a time"),
    ("kind: playbook, path: sub/book", child("t/secret"), "task call has path 'sub/book', not 't/secret'"),
    ("kind: playbook, path: sub/book", child(version="1"), "task call has version '', not '1'"),
    ("kind: playbook, path: sub/book, version: 2", child(), "task call has version '2', not ''"),
    ("kind: playbook, path: sub/book", child(returns="end"), "task call has return_step '', not 'end'"),
    ("kind: playbook, path: sub/book", child(detached=True), "task call has mode 'sync'"),
    ("kind: playbook, path: sub/book, mode: detached", child(), "task call has mode 'detached'"),
    ("kind: playbook, path: \"sub/{{ workload.p }}/end\"", child("t/secret"),
     "task call has path 'sub/{{ workload.p }}/end', not 't/secret'"),
    ("kind: playbook, path: \"sub/{{ workload.p }}/end\"", child("sub/end"),
     "task call has path 'sub/{{ workload.p }}/end', not 'sub/end'"),
]


@pytest.mark.parametrize(("tool", "asked", "why"), REFUSED)
def test_nothing_else_is_waited_for(tool: str, asked: dict[str, Any], why: str) -> None:
    """The run fails, once; nothing is requested; and there is a letter, by its reason."""
    found, event = plan(tool), waits(**asked)
    assert refusal(found.steps["start"], event) == why
    core = SchedulerCore(lambda _: found)
    scheduled = ev.StepScheduled("start:1", "start", ("t1",), "digest", "default")
    entry = (2, Record("x", "waiting", 1, stamp(NOW), (ev.StepStarted(), event), lease=LEASE))
    state = core.fold(core.empty("x"), [(1, Record("x", "router", 1, stamp(NOW), (scheduled,))), entry])
    assert core.unfit(state, entry) == why
    sent = [*core.outgoing(state, [entry], {}, 0), *core.recover(state, {})]
    assert not [each for each in sent if isinstance(each, Request)]
    (end,) = core.decide(state, NOW, {})
    message = f"a worker reported a wait that the playbook does not have: {why}"
    assert end == ev.StepFailed(
        {"kind": "internal", "message": message, "retryable": False}, (), "start:1", "start", "default")
    after = core.fold(state, [(3, Record("x", "scheduler", 1, stamp(NOW), (end,), 2))])
    assert (core.decide(after, NOW + 100, {}), core.unfit(after, entry), after.waits) == ([], "", {})


def test_a_loop_fails_with_an_iteration_that_waits_otherwise() -> None:
    found = plan_of("""
- step: start
  loop: {in: [1, 2], iterator: n, spec: {mode: parallel, max_in_flight: 2}}
  tool: {name: call, kind: playbook, path: sub/book}
""")
    core = SchedulerCore(lambda _: found)
    scheduled = ev.StepScheduled("start:1", "start", ("t1",), "digest", "default", loop=True)
    state = core.fold(core.empty("x"), [(1, Record("x", "router", 1, stamp(NOW), (scheduled,)))])
    state = core.fold(state, [(2, Record("x", "scheduler", 1, stamp(NOW), tuple(core.decide(state, NOW, {})), 1))])
    for index, path in enumerate(("sub/book", "t/secret")):
        lease = Lease("start:1", "start", (1, 1), "w", index, "default")
        asked = waits(child=ev.Child(child_of("x", lease, "call/1"), path))
        entry = (3 + index, Record("x", "waiting", 1, stamp(NOW), (ev.StepStarted(), asked), lease=lease))
        state = core.fold(state, [entry])
    assert [each.path for each in core.recover(state, {}) if isinstance(each, Request)] == ["sub/book"]
    (end,) = core.decide(state, NOW, {})
    assert isinstance(end, ev.StepFailed)
    assert (end.run_id, end.error["kind"]) == ("start:1", "internal")
    state = core.fold(state, [(5, Record("x", "scheduler", state.n + 1, stamp(NOW), (end,), 4))])
    assert core.decide(state, NOW, {}) == []


def test_a_pause_of_the_execution_keeps_no_such_wait() -> None:
    found = plan("kind: noop")
    core = SchedulerCore(lambda _: found)
    events = (ev.StepScheduled("start:1", "start", ("t1",), "digest", "default"), ev.PlaybookPaused())
    entry = (2, Record("x", "waiting", 1, stamp(NOW), (ev.StepStarted(), waits(**child())), lease=LEASE))
    state = core.fold(core.empty("x"), [(1, Record("x", "router", 1, stamp(NOW), events)), entry])
    assert [type(event) for event in core.decide(state, NOW, {})] == [ev.StepFailed]
