"""A loop that one worker runs does not wait for a python process inside it: it waits in the queue as a plain run does,
is shown as waiting, goes on with a worker that has room, and its time ends it."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_python_capacity import SOON_S, WAITS_S, ctl, filled
from tests.support.pool_ctl import Ctl
from tests.support.waiting import wait_until

__all__ = ["ctl"]

BOOK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: {name}, path: capacity/{name}}}
workload: {{gate: ""}}
workflow:
  - step: start
    spec: {{{spec}}}
    loop: {{in: [1, 2, 3, 4], iterator: n, spec: {{mode: parallel, max_in_flight: 4, policy: {{exec: local}}}}}}
    tool:
{tasks}
"""
LINE = "      - {name: line, kind: shell, cmds: ['echo {{ iter.n }} >> {{ workload.gate }}']}\n"
NAP = """      - name: nap
        kind: python
        args: {n: "{{ iter.n }}"}
        code: |
          import time
          time.sleep(0.02)
          result = n
"""


def _loop(ctl: Ctl, name: str, pool: str, tasks: str, more: str = "") -> str:
    file = ctl.folder / f"{name}.yaml"
    file.write_text(BOOK.format(name=name, spec=f"pool: {pool}{more}", tasks=tasks))
    code, _, err = ctl("register", str(file))
    assert code == 0, err
    found: str = ctl.json("execute", f"capacity/{name}", "--payload",
                          json.dumps({"gate": str(ctl.folder / f"{name}.line")}))["execution_id"]
    return found


def _waits(ctl: Ctl, execution: str) -> dict[str, Any]:
    """Its first reason, once that is the tool: for a moment before each look it is the worker's that tries."""
    found: dict[str, Any] = wait_until(
        lambda: ctl.json("why", execution)["reasons"][0], "it is said why it waits", SOON_S,
        so=lambda reason: reason["cause"] == "tool.busy")
    return found


@pytest.mark.parametrize(("name", "tasks"), [("first", NAP), ("second", LINE + NAP)])
def test_a_loop_that_finds_no_process_waits_in_the_queue_and_says_so(ctl: Ctl, name: str, tasks: str) -> None:
    pool, gate = f"alone-{name}", ctl.folder / f"{name}.gate"
    ctl.apply(pool, workers=1, slots=8)
    hung = filled(ctl, pool, gate)
    waiting = _loop(ctl, f"loop-{name}", pool, tasks)
    reason = _waits(ctl, waiting)
    assert (reason["kind"], reason["values"]["kind"]) == ("blocked", "python")
    assert {call["execution_id"] for call in reason["values"]["calls"]} == set(hung)
    time.sleep(2 * WAITS_S)
    said = _events(ctl, waiting)
    time.sleep(2 * WAITS_S)
    assert _events(ctl, waiting) == said, "waiting fills the log"
    assert ctl.status(waiting) == "running"
    gate.touch()
    wait_until(lambda: ctl.status(waiting) == "completed", "it starts when a process is free", SOON_S)
    parts = ctl.json("trace", waiting)["parts_us"]
    assert parts["queue"] > WAITS_S * 1e6 > parts["run"], parts
    assert parts["takeover"] == 0, parts
    assert ctl("verify", waiting)[0] == 0
    _once(ctl, f"loop-{name}")


def test_an_idle_worker_takes_the_loop(ctl: Ctl) -> None:
    pool, gate = "pair-local", ctl.folder / "pair-local.gate"
    ctl.apply(pool, workers=1, slots=8)
    filled(ctl, pool, gate)
    waiting = _loop(ctl, "loop-pair", pool, LINE + NAP)
    _waits(ctl, waiting)
    ctl.apply(pool, workers=2, slots=8)
    try:
        wait_until(lambda: ctl.status(waiting) == "completed", "it does not starve", SOON_S)
        assert not gate.exists()
        assert ctl("verify", waiting)[0] == 0
        _once(ctl, "loop-pair")
    finally:
        gate.touch()


def test_the_time_of_the_step_ends_a_loop_that_waits(ctl: Ctl) -> None:
    pool, gate = "late-local", ctl.folder / "late-local.gate"
    ctl.apply(pool, workers=1, slots=8)
    filled(ctl, pool, gate)
    try:
        waiting = _loop(ctl, "loop-late", pool, NAP, ", policy: {lifecycle: {timeout_s: 4}}")
        _waits(ctl, waiting)
        wait_until(lambda: ctl.status(waiting) == "failed", "its time ends it", SOON_S)
        assert ctl.json("get", waiting)["error"]["kind"] == "timeout"
        assert ctl("verify", waiting)[0] == 0
    finally:
        gate.touch()


def _events(ctl: Ctl, execution: str) -> int:
    return len(ctl("events", execution, "-o", "jsonl")[1].splitlines())


def _once(ctl: Ctl, name: str) -> None:
    """What came before the wait was done once."""
    line: Path = ctl.folder / f"{name}.line"
    if line.exists():
        assert sorted(line.read_text().split()) == ["1", "2", "3", "4"]
