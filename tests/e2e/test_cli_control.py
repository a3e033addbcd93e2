"""cancel, pause, resume and signal from the command line, on a stack of processes."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable

import pytest

from services.cli import context, why
from shared.engine.why_facts import Reason
from shared.events.stamp import seconds
from tests.support.cli import Cli, Up

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {0}, path: control/{0}}}\nworkflow:\n"
APPROVAL = """
  - step: start
    tool: {kind: signal, signal: approval, schema: {type: object, required: [ok]}}
    next: {arcs: [{step: end}]}
  - {step: end, tool: {kind: noop, args: {answer: "{{ start.ok }}"}}}
"""
SLEEP = """
  - {step: start, tool: {kind: shell, cmds: ["sleep 60"]}}
"""


@pytest.fixture
def started(up: Up, cli: Cli) -> Callable[[str, str], str]:
    def start(name: str, workflow: str) -> str:
        (up.folder / f"{name}.yaml").write_text(HEAD.format(name) + workflow)
        assert cli("register", f"{name}.yaml", cwd=up.folder).returncode == 0
        done = cli("execute", f"control/{name}", cwd=up.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return start


def _shown(up: Up, cli: Cli, execution: str) -> dict[str, object]:
    shown: dict[str, object] = json.loads(cli("get", execution, "-o", "json", cwd=up.folder).stdout)
    return shown


def _until(up: Up, cli: Cli, execution: str, status: str) -> dict[str, object]:
    for _ in range(60):
        shown = _shown(up, cli, execution)
        if shown["status"] == status:
            return shown
        time.sleep(0.1)
    raise AssertionError(f"{shown['status']}, not {status}")


def test_an_approval_given_by_signal_lets_the_execution_go_on(
    up: Up, cli: Cli, started: Callable[[str, str], str]
) -> None:
    execution = started("approval", APPROVAL)
    assert cli("signal", execution, "approval", "--set", "ok=true", cwd=up.folder).returncode == 0
    assert _until(up, cli, execution, "completed")["result"] == {"answer": True}


def test_why_says_what_it_waits_for(up: Up, cli: Cli, started: Callable[[str, str], str]) -> None:
    execution = started("approval", APPROVAL)
    for _ in range(60):
        done = cli("why", execution, "-o", "json", cwd=up.folder)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        if [reason["cause"] for reason in answer["reasons"]] == ["wait.signal"]:
            break
        time.sleep(0.1)
    assert (answer["status"], answer["reasons"][0]["values"]["signal"]) == ("running", "approval")
    assert cli("why", execution, "-o", "name", cwd=up.folder).stdout == f"{execution}\n"
    assert f"→ noetlctl signal {execution} approval" in cli("why", execution, cwd=up.folder).stdout
    unknown = cli("why", "nobody", cwd=up.folder)
    assert unknown.returncode == 7
    assert unknown.stderr.startswith("noetlctl: no execution nobody in the log, nor a request for it")


def test_a_paused_execution_waits_for_resume(up: Up, cli: Cli, started: Callable[[str, str], str]) -> None:
    execution = started("approval", APPROVAL)
    assert cli("pause", execution, "--reason", "lunch", cwd=up.folder).returncode == 0
    _until(up, cli, execution, "paused")
    cli("signal", execution, "approval", "--set", "ok=1", cwd=up.folder)
    time.sleep(0.5)
    assert _shown(up, cli, execution)["status"] == "paused"
    assert cli("resume", execution, cwd=up.folder).returncode == 0
    _until(up, cli, execution, "completed")


def test_cancel_waits_until_the_shell_is_dead(up: Up, cli: Cli, started: Callable[[str, str], str]) -> None:
    execution = started("sleep", SLEEP)
    time.sleep(0.5)
    began = time.monotonic()
    done = cli("cancel", execution, "--reason", "enough", "--wait", cwd=up.folder)
    assert (done.returncode, done.stdout) == (0, f"{execution} cancelled\n")
    assert time.monotonic() - began < 15
    assert _shown(up, cli, execution)["error"] == {"kind": "cancelled", "message": "enough"}


def test_an_execution_nobody_knows_is_exit_code_7(up: Up, cli: Cli) -> None:
    for command in (("cancel", "nobody"), ("pause", "nobody"), ("resume", "nobody"), ("signal", "nobody", "go")):
        done = cli(*command, cwd=up.folder)
        assert done.returncode == 7
        assert done.stderr.startswith("noetlctl: no execution nobody in the log")


def test_why_tells_of_a_killed_worker_until_its_lease_expires(
    up: Up, cli: Cli, started: Callable[[str, str], str]
) -> None:
    execution, settings = started("sleep", SLEEP), context.find(up.context_file)

    def reasons() -> list[Reason]:
        return list(asyncio.run(why.answered(execution, settings)).reasons)

    def until(cause: str) -> Reason:
        for _ in range(300):
            found = [reason for reason in reasons() if reason.cause == cause]
            if found:
                return found[0]
            time.sleep(0.1)
        raise AssertionError(reasons())

    worker = until("running").values["worker"]
    shown = json.loads(cli("pool", "workers", "-o", "json", cwd=up.folder).stdout)
    os.kill(next(each["pid"] for each in shown if each["name"] == worker), signal.SIGKILL)
    killed = time.time()
    reason = until("lease.silent")
    assert reason.values["worker"] == worker
    assert killed < seconds(reason.until) < killed + 60
    assert cli("cancel", execution, "--grace", "0", "--wait", cwd=up.folder).returncode == 0
