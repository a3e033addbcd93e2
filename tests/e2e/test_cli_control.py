"""cancel, pause, resume and signal from the command line, on a stack of processes."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from services.cli.commands import why
from services.cli.stack import context
from shared.answers.why.facts import Reason
from tests.support.cli import Cli, Up
from tests.support.playbooks import head
from tests.support.waiting import wait_until

APPROVAL = """
  - step: start
    tool: {kind: signal, signal: approval, schema: {type: object, required: [ok]}}
    next: {arcs: [{step: end}]}
  - {step: end, tool: {kind: noop, args: {answer: "{{ start.ok }}"}}}
"""
TAKEN_OVER_S = 12.0  # less than the 15 s of the lease: it is not waited for
SLEEP = """
  - {step: start, tool: {kind: shell, cmds: ["sleep 60"]}}
"""


@pytest.fixture
def started(up: Up, inner: Cli) -> Callable[[str, str], str]:
    def start(name: str, workflow: str) -> str:
        (up.folder / f"{name}.yaml").write_text(f"{head(name, f'control/{name}')}workflow:\n{workflow}")
        assert inner("register", f"{name}.yaml", cwd=up.folder).returncode == 0
        done = inner("execute", f"control/{name}", cwd=up.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return start


def _shown(up: Up, inner: Cli, execution: str) -> dict[str, object]:
    shown: dict[str, object] = json.loads(inner("get", execution, "-o", "json", cwd=up.folder).stdout)
    return shown


def _comes_to(up: Up, inner: Cli, execution: str, status: str) -> dict[str, object]:
    return wait_until(lambda: _shown(up, inner, execution), status, 60.0, so=lambda shown: shown["status"] == status)


def test_an_approval_given_by_signal_lets_the_execution_go_on(
    up: Up, inner: Cli, started: Callable[[str, str], str]
) -> None:
    execution = started("approval", APPROVAL)
    assert inner("signal", execution, "approval", "--set", "ok=true", cwd=up.folder).returncode == 0
    assert _comes_to(up, inner, execution, "completed")["result"] == {"answer": True}


def test_why_says_what_it_waits_for(up: Up, inner: Cli, started: Callable[[str, str], str]) -> None:
    execution = started("approval", APPROVAL)

    def look() -> dict[str, Any]:
        done = inner("why", execution, "-o", "json", cwd=up.folder)
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    answer = wait_until(look, "it waits for a signal", 60.0,
                        so=lambda answer: [reason["cause"] for reason in answer["reasons"]] == ["wait.signal"])
    assert (answer["status"], answer["reasons"][0]["values"]["signal"]) == ("running", "approval")
    assert inner("why", execution, "-o", "name", cwd=up.folder).stdout == f"{execution}\n"
    assert f"→ noetlctl signal {execution} approval" in inner("why", execution, cwd=up.folder).stdout
    unknown = inner("why", "nobody", cwd=up.folder)
    assert unknown.returncode == 7
    assert unknown.stderr.startswith("noetlctl: no execution nobody in the log, nor a request for it")


def test_a_paused_execution_waits_for_resume(up: Up, inner: Cli, started: Callable[[str, str], str]) -> None:
    execution = started("approval", APPROVAL)
    assert inner("pause", execution, "--reason", "lunch", cwd=up.folder).returncode == 0
    _comes_to(up, inner, execution, "paused")
    inner("signal", execution, "approval", "--set", "ok=1", cwd=up.folder)
    time.sleep(0.5)
    assert _shown(up, inner, execution)["status"] == "paused"
    assert inner("resume", execution, cwd=up.folder).returncode == 0
    _comes_to(up, inner, execution, "completed")


def test_cancel_waits_until_the_shell_is_dead(up: Up, inner: Cli, started: Callable[[str, str], str]) -> None:
    execution = started("sleep", SLEEP)
    time.sleep(0.5)
    began = time.monotonic()
    done = inner("cancel", execution, "--reason", "enough", "--wait", cwd=up.folder)
    assert (done.returncode, done.stdout) == (0, f"{execution} cancelled\n")
    assert time.monotonic() - began < 15
    assert _shown(up, inner, execution)["error"] == {"kind": "cancelled", "message": "enough"}


def test_an_execution_nobody_knows_is_exit_code_7(up: Up, inner: Cli) -> None:
    for command in (("cancel", "nobody"), ("pause", "nobody"), ("resume", "nobody"), ("signal", "nobody", "go")):
        done = inner(*command, cwd=up.folder)
        assert done.returncode == 7
        assert done.stderr.startswith("noetlctl: no execution nobody in the log")


def test_why_tells_of_the_lease_that_a_killed_worker_lost(
    up: Up, inner: Cli, started: Callable[[str, str], str]
) -> None:
    execution, settings = started("sleep", SLEEP), context.find(up.context_file)

    def reasons() -> list[Reason]:
        return list(asyncio.run(why.answered(execution, settings)).reasons)

    def runs(leases: int) -> Reason:
        def look() -> list[Reason]:
            return [each for each in reasons() if each.cause == "running" and each.values.get("leases") == leases]

        return wait_until(look, f"it runs under lease {leases}", 60.0, instead=reasons)[0]

    def held() -> list[dict[str, Any]]:
        workers: list[dict[str, Any]] = json.loads(inner("pool", "workers", "-o", "json", cwd=up.folder).stdout)
        return [each for each in workers if execution in {run["execution_id"] for run in each["runs"]}]

    worker = runs(1).values["worker"]
    [said] = wait_until(held, "its beat says that it holds the run, which is what is taken over", 60.0)
    assert said["name"] == worker
    os.kill(said["pid"], signal.SIGKILL)
    killed = time.monotonic()
    reason = runs(2)
    assert time.monotonic() - killed < TAKEN_OVER_S
    assert [lost["worker"] for lost in reason.values["lost_leases"]] == [worker]
    assert "1 of at most 3 leases in a row were lost" in reason.text
    assert inner("cancel", execution, "--grace", "0", "--wait", cwd=up.folder).returncode == 0
