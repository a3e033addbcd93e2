"""Python tasks on real workers: what does not fit into one worker's processes waits in the queue, where another worker
finds it, and is shown as waiting; and no execution gets the answer of another."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shared.runtime.service.settings import Settings
from tests.support.pool_ctl import Ctl, stack_in
from tests.support.waiting import wait_until

PROCESSES = Settings().python_processes
SOON_S = 30.0
WAITS_S = 2.0  # longer than a run stands in line inside a worker
BOOK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: {name}, path: capacity/{name}}}
workload: {{gate: "", n: 0}}
workflow:
  - step: start
    spec: {{pool: {pool}}}
    tool:
      - name: {name}
        kind: python
        args: {{gate: "{{{{ workload.gate }}}}", n: "{{{{ workload.n }}}}"}}
        code: |
{code}
"""
HANG = "import os, time\nwhile not os.path.exists(gate): time.sleep(0.05)"
NAP = "import time\ntime.sleep(0.02)\nresult = n"
FORK = "import os, time\nif os.fork() == 0: time.sleep(0.1)\nresult = n"


@pytest.fixture(scope="module")
def ctl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ctl]:
    with stack_in(tmp_path_factory.mktemp("capacity")) as ctl:
        yield ctl


def _register(ctl: Ctl, name: str, pool: str, code: str) -> str:
    file = ctl.folder / f"{name}.yaml"
    file.write_text(BOOK.format(name=name, pool=pool, code="\n".join(" " * 10 + line for line in code.splitlines())))
    assert ctl("register", str(file))[0] == 0
    return f"capacity/{name}"


def _execute(ctl: Ctl, path: str, gate: Path, n: int = 0) -> str:
    found: str = ctl.json("execute", path, "--payload", f'{{"gate": "{gate}", "n": {n}}}')["execution_id"]
    return found


def filled(ctl: Ctl, pool: str, gate: Path) -> list[str]:
    """As many executions as a worker has processes, each in a call that does not end before the gate is there."""
    path = _register(ctl, f"hang-{pool}", pool, HANG)
    hung = [_execute(ctl, path, gate) for _ in range(PROCESSES)]
    wait_until(lambda: _tool(ctl, pool)["busy"] == PROCESSES, "the calls run", SOON_S)
    return hung


def _tool(ctl: Ctl, pool: str) -> dict[str, Any]:
    tool: dict[str, Any] = ctl.pool(pool)["tools"].get("python", {"busy": 0, "size": 0})
    return tool


def test_alone_a_worker_leaves_what_does_not_fit_in_the_queue_and_says_so(ctl: Ctl) -> None:
    pool, gate = "alone", ctl.folder / "alone.gate"
    ctl.apply(pool, workers=1, slots=8)
    hung = filled(ctl, pool, gate)
    third = _execute(ctl, _register(ctl, "nap-alone", pool, NAP), gate, 7)
    wait_until(lambda: ctl.json("why", third)["reasons"][0]["cause"] == "tool.busy", "it is said why it waits", SOON_S)
    (reason, *_) = ctl.json("why", third)["reasons"]
    assert (reason["kind"], reason["values"]["kind"]) == ("blocked", "python")
    assert {call["execution_id"] for call in reason["values"]["calls"]} == set(hung)
    assert "NOETL_PYTHON_PROCESSES" in reason["remedy"]
    assert all(execution in reason["text"] for execution in hung)
    assert _tool(ctl, pool) == {"busy": PROCESSES, "size": PROCESSES}
    assert f"{PROCESSES}/{PROCESSES}" in ctl("pool", "list")[1]
    full = wait_until(lambda: ctl.pool(pool), "it is said to be full", SOON_S, so=lambda told: told["state"] == "full")
    assert f"all {PROCESSES} python processes" in full["message"]
    (held, *_) = ctl.json("why", hung[0])["reasons"]
    assert (held["cause"], held["values"]["call_s"]) == ("running", 3600.0)
    assert f"task hang-{pool} since" in ctl("pool", "describe", pool)[1]
    time.sleep(WAITS_S)
    assert ctl.status(third) == "running"
    gate.touch()
    wait_until(lambda: ctl.status(third) == "completed", "it starts when a process is free", SOON_S)
    parts = ctl.json("trace", third)["parts_us"]
    assert parts["queue"] > WAITS_S * 1e6 > parts["run"] > 19_000, parts
    for execution in (third, *hung):
        ctl.completed(execution)
        assert ctl("verify", execution)[0] == 0


def test_an_idle_worker_takes_what_does_not_fit_elsewhere(ctl: Ctl) -> None:
    pool, gate = "pair", ctl.folder / "pair.gate"
    ctl.apply(pool, workers=1, slots=8)
    filled(ctl, pool, gate)
    path = _register(ctl, "nap-pair", pool, NAP)
    waiting = [_execute(ctl, path, gate, n) for n in range(3)]
    ctl.apply(pool, workers=2, slots=8)
    try:
        for execution in waiting:
            wait_until(lambda execution=execution: ctl.status(execution) == "completed", "it does not starve", SOON_S)
        assert not gate.exists()
    finally:
        gate.touch()


def test_no_execution_gets_the_answer_of_another_after_a_fork(ctl: Ctl) -> None:
    pool = "forks"
    ctl.apply(pool, workers=1, slots=8)
    forks, naps = _register(ctl, "fork", pool, FORK), _register(ctl, "nap-forks", pool, NAP)
    started = {n: _execute(ctl, forks if n % 4 == 0 else naps, ctl.folder, n) for n in range(16)}
    for n, execution in started.items():
        ctl.completed(execution)
        events = [json.loads(line) for line in ctl("events", execution, "-o", "jsonl")[1].splitlines()]
        (done,) = [event["payload"]["outcome"] for event in events if event["event_type"] == "task.done"]
        assert done["result"] == n
        assert ctl("verify", execution)[0] == 0
