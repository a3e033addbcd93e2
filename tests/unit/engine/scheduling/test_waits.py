"""Waits, decided without a broker: once, in time, and for whoever begins the task anew."""

from typing import Any

import pytest
from msgspec.structs import replace

from shared.engine.leases.lease_fit import child_of
from shared.engine.scheduling import decide as scheduling
from shared.engine.scheduling import waits as waiting
from shared.engine.scheduling.state import Schedule, evolve
from shared.events import model as ev
from shared.events.outcome import Result, failed, ok
from shared.events.record import Epoch, Lease, Record
from shared.events.request import Request
from shared.events.stamp import stamp
from tests.unit.engine.support import plan_of

NOW = 1_800_000_000.0
ID = child_of("x", Lease("start:1", "start", (1, 1), "w"), "call/1")
BOOK = """
- step: start
  tool: {name: call, TOOL, spec: {policy: {rules: [{when: "{{ false }}", then: {do: retry, attempts: 2}}]}}}
"""
CHILD = ev.Child(ID, "sub/book", payload={"n": 1})


class Bench:
    """One plain run `start:1` at a worker, and what comes of it. `tool` is its task's."""

    def __init__(self, tool: str = "kind: playbook, path: sub/book") -> None:
        self.plan = plan_of(BOOK.replace("TOOL", tool))
        self.state, self.seq, self.now = Schedule("x"), 0, NOW
        self.put("router", ev.StepScheduled("start:1", "start", ("t1",), "digest", "default"))

    def put(self, writer: Any, *events: ev.Event, epoch: Epoch | None = None, source: str = "") -> None:
        self.seq += 1
        lease = Lease("start:1", "start", epoch, "w") if epoch else None
        n = self.state.n + 1 if writer == "scheduler" else 1
        record = Record("x", writer, n, stamp(self.now), events, lease=lease, source=source)
        self.state = evolve(self.state, [(self.seq, record)])

    def waits(self, epoch: Epoch = (1, 1), **fields: Any) -> None:
        event = ev.TaskWaiting("call", 1, **{"wait": "call/1", **fields})
        if event.child is not None:
            own = child_of("x", Lease("start:1", "start", epoch, "w"), event.wait)
            event = replace(event, child=replace(event.child, execution_id=own))
        self.put("waiting", event, epoch=epoch)

    def child_ends(self, status: Any = "completed", **fields: Any) -> None:
        self.put("control", ev.ChildEnded("start:1", "call/1", ID, status, **fields), source=ID)

    def decided(self) -> list[ev.Event]:
        events = scheduling.decide(lambda _: self.plan, self.state, self.now)
        if events:
            self.put("scheduler", *events)
        return events

    @property
    def commands(self) -> int:
        return len(scheduling.outstanding(lambda _: self.plan, self.state))

    @property
    def children(self) -> list[Request]:
        return list(waiting.children(lambda _: self.plan, self.state))


def test_a_waiting_run_has_no_command_and_gets_one_when_its_child_has_ended() -> None:
    bench = Bench()
    bench.waits(child=CHILD)
    assert (bench.decided(), bench.commands) == ([], 0)
    (request,) = bench.children
    assert (request.execution_id, request.path, request.payload) == (ID, "sub/book", {"n": 1})
    assert request.parent == ev.Parent("x", "start:1", "call/1", depth=1)
    bench.child_ends(result=Result(7))
    about = {"execution_id": ID, "path": "sub/book"}
    assert bench.decided() == [ev.TaskResumed("start:1", "call/1", -1, ok(7, meta=about))]
    assert (bench.decided(), bench.commands) == ([], 1)


def test_a_child_that_ends_twice_resumes_once() -> None:
    bench = Bench()
    bench.waits(child=CHILD)
    bench.child_ends()
    assert len(bench.decided()) == 1
    bench.child_ends()
    assert bench.decided() == []


def test_a_pause_is_over_in_time_and_makes_the_call_itself() -> None:
    bench = Bench()
    bench.waits(wait="call/1/pause", pause=True, until=stamp(NOW + 30))
    assert scheduling.due(bench.state) == NOW + 30
    bench.now = NOW + 29.9
    assert bench.decided() == []
    bench.now = NOW + 30
    assert bench.decided() == [ev.TaskResumed("start:1", "call/1/pause")]


def test_a_late_child_is_a_timeout_and_is_to_be_cancelled() -> None:
    bench = Bench()
    bench.waits(child=CHILD, until=stamp(NOW + 5))
    bench.now = NOW + 6
    (resumed,) = bench.decided()
    assert isinstance(resumed, ev.TaskResumed)
    assert resumed.outcome is not None
    assert (resumed.outcome.error or {})["kind"] == "timeout"
    assert [asked.execution_id for asked in waiting.cancels(bench.state)] == [ID]
    bench.child_ends("cancelled")
    assert list(waiting.cancels(bench.state)) == []


def test_a_worker_that_comes_to_a_wait_that_is_over_gets_its_command_again() -> None:
    bench = Bench()
    bench.waits(child=CHILD)
    bench.child_ends()
    bench.decided()
    bench.waits(epoch=(2, 1), child=CHILD)
    assert (bench.decided(), bench.commands) == ([], 1)


def test_a_report_of_a_lost_lease_does_not_bring_an_old_wait_back() -> None:
    bench = Bench()
    bench.waits(epoch=(2, 1), wait="call/2", child=CHILD)
    bench.waits(epoch=(1, 1), wait="call/1", child=ev.Child("child-0", "sub/book"))
    second = child_of("x", Lease("start:1", "start", (2, 1), "w"), "call/2")
    assert [request.execution_id for request in bench.children] == [second]


def test_a_detached_child_is_answered_at_once() -> None:
    bench = Bench("kind: playbook, path: sub/book, mode: detached")
    bench.waits(child=ev.Child(ID, "sub/book", detached=True))
    (resumed,) = bench.decided()
    expected = ok({"execution_id": ID, "path": "sub/book", "status": "started"})
    assert resumed == ev.TaskResumed("start:1", "call/1", -1, expected)
    assert list(waiting.cancels(bench.state)) == []


def test_a_signal_is_taken_once_by_the_first_wait_that_asks_for_it() -> None:
    bench = Bench("kind: signal, signal: go")
    bench.put("control", ev.SignalReceived("go", 1, "me"), source="s1")
    assert bench.decided() == []
    bench.waits(signal="go", schema={"type": "integer"})
    assert bench.decided() == [ev.TaskResumed("start:1", "call/1", -1, ok(1, meta={"by": "me"}), "s1")]
    bench.waits(epoch=(2, 1), wait="call/2", signal="go")
    bench.put("control", ev.SignalReceived("go", 1, "me"), source="s1")  # told again
    assert bench.decided() == []


def test_a_payload_that_does_not_fit_is_rejected_and_the_wait_goes_on() -> None:
    bench = Bench("kind: signal, signal: go")
    bench.waits(signal="go", schema={"type": "object", "required": ["ok"]})
    bench.put("control", ev.SignalReceived("go", {}, "me"), source="s1")
    assert bench.decided() == [ev.SignalRejected("s1", "go", "$: 'ok' is a required property")]
    bench.put("control", ev.SignalReceived("go", {"ok": 1}), source="s2")
    assert [type(event) for event in bench.decided()] == [ev.TaskResumed]


def test_a_failed_child_is_an_error_with_its_own_inside() -> None:
    bench = Bench()
    bench.waits(child=CHILD)
    bench.child_ends("failed", error={"kind": "python", "message": "boom"})
    (resumed,) = bench.decided()
    assert isinstance(resumed, ev.TaskResumed)
    message = f"playbook 'sub/book' (execution {ID}) failed: boom"
    details = {"execution_id": ID, "path": "sub/book", "error": {"kind": "python", "message": "boom"}}
    assert resumed.outcome == failed("playbook", message, details=details)


@pytest.mark.parametrize(("by", "message"), [
    ("", "the step is over its time"), ("deadline_s", "the step is over its time: lifecycle.deadline_s"),
    ("execution_s", "the step is over its time: timeouts.execution_s of the executor"),
])
def test_a_run_over_its_deadline_fails_though_nobody_took_it(by: str, message: str) -> None:
    bench = Bench()
    late = ev.StepScheduled("late:1", "late", ("t2",), "digest", "gpu", deadline=stamp(NOW + 1), due_by=by)
    bench.put("router", late)
    assert scheduling.due(bench.state) == NOW + 1 + scheduling.LATE_S
    bench.now = NOW + 1 + scheduling.LATE_S
    (failure,) = bench.decided()
    assert isinstance(failure, ev.StepFailed)
    assert (failure.run_id, failure.error["kind"], failure.pool) == ("late:1", "timeout", "gpu")
    assert failure.error["message"] == message
    assert bench.decided() == []


def test_while_paused_no_wait_ends() -> None:
    bench = Bench("kind: wait, for: 5")
    bench.waits(until=stamp(NOW))
    bench.put("router", ev.PlaybookPaused())
    assert (bench.decided(), scheduling.due(bench.state)) == ([], None)
    bench.put("router", ev.PlaybookResumed())
    assert len(bench.decided()) == 1
