"""Executions that stand still on a whole stack: one command names the cause, and what it says to type helps."""

import json
import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.cli import Result, Up, inside
from tests.support.playbooks import head
from tests.support.processes import children
from tests.support.waiting import wait_until

Ctl = Callable[..., Result]
TASK = "workflow:\n  - step: start\n    tool:\n      - name: work\n        "
RETRY = "\n        spec: {{policy: {{rules: [{{when: \"{{{{ outcome.status == 'error' }}}}\", " \
        "then: {{do: retry, attempts: 3, delay: {delay}}}}}]}}}}\n"
HUNG = TASK + "kind: python\n        code: |\n          import time\n          print('before the hang')\n" \
    "          time.sleep(3600)\n"
BROKEN = "workflow:\n  - step: start\n    tool: {kind: python, code: \"result = {'n': 1}\"}\n" \
    "    next: {arcs: [{step: last}]}\n  - {step: last, tool: {kind: noop, args: {m: '{{ start.nn + 1 }}'}}}\n"
SLOW = TASK + "kind: http\n        url: http://127.0.0.1:{port}/slow\n"
DOWN = TASK + "kind: postgres\n        auth: warehouse\n        command: SELECT 1" + RETRY.format(delay=300)
AWAY = TASK + "kind: http\n        url: http://127.0.0.1:9/orders" + RETRY.format(delay=300)
LOGIN = TASK + "kind: postgres\n        auth: wrong\n        command: SELECT 1\n"
NOBODY = TASK + "kind: postgres\n        auth: nobody\n        command: SELECT 1\n"
POOL = "workflow:\n  - {step: start, spec: {pool: gpu}, tool: {kind: noop}}\n"
HELD = "workflow:\n  - step: start\n    spec: {policy: {limits: {key: crm, max: 1}}}\n" \
       "    tool: {kind: signal, signal: done}\n"
KILLER = TASK + "kind: python\n        code: |\n          import os\n          pid = os.getpid()\n" \
    "          while 'services.worker' not in open(f'/proc/{pid}/cmdline').read():\n" \
    "              pid = int(open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[1])\n" \
    "          os.kill(pid, 9)\n"


@pytest.fixture(scope="module")
def silence() -> Iterator[int]:
    """A port at which someone listens and says nothing."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(50)
        yield server.getsockname()[1]


@pytest.fixture
def ctl(up: Up) -> Ctl:
    return lambda *args: inside(*args, cwd=up.folder)


def started(ctl: Ctl, up: Up, name: str, text: str) -> str:
    (up.folder / f"{name}.yaml").write_text(head(name, f"stuck/{name}") + text)
    assert ctl("register", f"{name}.yaml").returncode == 0
    return ctl("execute", f"stuck/{name}").stdout.strip()


def why(ctl: Ctl, execution: str, cause: str) -> dict[str, Any]:
    """The reason of that cause, as soon as it is one."""
    def found() -> dict[str, Any] | None:
        reasons = json.loads(ctl("why", execution, "-o", "json").stdout)["reasons"]
        return next((reason for reason in reasons if reason["cause"] == cause), None)

    wait_until(lambda: found() is not None, f"{execution} has the cause {cause}", 90)
    reason = found()
    assert reason is not None
    return reason


def typed(ctl: Ctl, remedy: str) -> Result:
    """The first command in it that is whole as it stands."""
    found = re.search(r"noetlctl ([^;,()=]+?)(?= would| ends|[;,()]|$)", remedy)
    assert found is not None, remedy
    done = ctl(*found[1].split())
    assert done.returncode == 0, (remedy, done.stderr)
    return done


def test_a_call_that_does_not_end_is_named_and_ended(ctl: Ctl, up: Up, silence: int) -> None:
    for name, text, needle in (
        ("hung", HUNG, "(python, step at line 5)"),
        ("slow", SLOW.format(port=silence), f"(http, http://127.0.0.1:{silence}/slow, step at line 5)"),
    ):
        execution = started(ctl, up, name, text)
        wait_until(lambda execution=execution: "task work" in ctl("why", execution).stdout, "its task has begun", 60)
        reason = why(ctl, execution, "running")
        assert f"task work {needle}" in reason["text"]
        if name == "hung":
            wait_until(lambda execution=execution: ctl("why", execution).stdout, "why shows what it printed", 30,
                       so=lambda found: "    printed: before the hang\n" in found)
            assert "before the hang" in ctl("logs", execution, "--printed").stdout
        typed(ctl, reason["remedy"])
        assert ctl("watch", execution).returncode == 5
        assert ("before the hang" in ctl("logs", execution, "--printed").stdout) == (name == "hung")


def test_a_failure_of_the_source_is_mended_and_continues(ctl: Ctl, up: Up) -> None:
    execution = started(ctl, up, "broken", BROKEN)
    assert ctl("watch", execution).returncode == 4
    remedy = why(ctl, execution, "over")["remedy"]
    rerun = f"noetlctl rerun {execution} --failed --version latest"
    assert remedy == f"mend step last (line 8) of the playbook, noetlctl register FILE, then {rerun}"
    file = up.folder / "broken.yaml"
    file.write_text(file.read_text().replace("start.nn", "start.n").replace("'n': 1", "'n': 2"))
    assert ctl("register", "broken.yaml").returncode == 0
    refused = ctl(*rerun.split()[1:])
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "version 2 of stuck/broken has another step 'start', which is done: its tasks" in refused.stderr
    file.write_text(file.read_text().replace("'n': 2", "'n': 1"))
    assert ctl("register", "broken.yaml").returncode == 0
    done = ctl(*rerun.split()[1:], "--wait", "-o", "json")
    assert (done.returncode, json.loads(done.stdout)["result"]) == (0, {"m": 2})


def test_a_target_that_is_away_is_named_while_it_is_waited_for(ctl: Ctl, up: Up) -> None:
    ctl("credential", 'warehouse={"host": "127.0.0.1", "port": 9, "user": "etl", "password": "s3cret-pw"}')
    down, away = started(ctl, up, "down", DOWN), started(ctl, up, "away", AWAY)
    assert "connect: 127.0.0.1:9 (credential warehouse): " in why(ctl, down, "backoff")["text"]
    assert "connect: GET http://127.0.0.1:9/orders: " in why(ctl, away, "backoff")["text"]
    ctl("cancel", down, away)


def test_credentials_that_are_missing_or_wrong_are_named_and_given_anew(ctl: Ctl, up: Up) -> None:
    good = up.context["postgres_dsn"]
    bad = re.sub(r":[^:@/]+@", ":nonsense-77@", good)
    ctl("credential", f"wrong={json.dumps({'dsn': bad})}")
    for name, text in (("wrong", LOGIN), ("nobody", NOBODY)):
        execution = started(ctl, up, name, text)
        reason = why(ctl, execution, "over")
        assert f"credential {name}" in reason["text"].replace("'", "")
        assert reason["remedy"].startswith(f"noetlctl credential {name}=JSON, then ")
        assert ctl("credential", f"{name}={json.dumps({'dsn': good})}").returncode == 0
        new = typed(ctl, reason["remedy"].partition(", then ")[2]).stdout.strip()
        assert ctl("watch", new).returncode == 0


def test_a_pool_that_is_missing_and_one_that_is_paused_are_named_and_mended(ctl: Ctl, up: Up) -> None:
    assert started(ctl, up, "pool", POOL) == ""
    listed = ("get", "--path", "stuck/pool", "-o", "json")
    wait_until(lambda: json.loads(ctl(*listed).stdout) != [], "the read model has it", 60)
    refused = json.loads(ctl(*listed).stdout)[0]["execution_id"]
    reason = why(ctl, refused, "request.refused")
    assert "there is no pool gpu" in reason["text"]
    typed(ctl, reason["text"])
    assert ctl("pool", "pause", "gpu").returncode == 0
    execution = typed(ctl, reason["remedy"]).stdout.strip()
    reason = why(ctl, execution, "pool.paused")
    assert "pool gpu" in reason["text"]
    typed(ctl, reason["remedy"])
    assert ctl("watch", execution).returncode == 0


def test_a_place_and_a_signal_that_are_waited_for_are_named(ctl: Ctl, up: Up) -> None:
    holder = started(ctl, up, "held", HELD)
    reason = why(ctl, holder, "wait.signal")
    waiting = ctl("execute", "stuck/held").stdout.strip()
    assert holder in why(ctl, waiting, "limit.places")["text"]
    typed(ctl, reason["remedy"])
    assert ctl("watch", holder).returncode == 0
    typed(ctl, why(ctl, waiting, "wait.signal")["remedy"])
    assert ctl("watch", waiting).returncode == 0


def test_a_task_that_ends_its_workers_is_named(ctl: Ctl, up: Up) -> None:
    execution = started(ctl, up, "killer", KILLER)
    reason = why(ctl, execution, "over")
    assert "worker_lost" in reason["text"]
    assert "it was in task work (python, step at line 5)" in reason["text"]


def test_a_router_that_is_frozen_is_named_with_its_process_and_ended(ctl: Ctl, up: Up) -> None:
    router = next(pid for pid, line in children(up.process.pid).items() if "services.router" in line)
    os.kill(router, signal.SIGSTOP)
    try:
        execution = ctl("execute", "stuck/held").stdout.strip()  # by its id, which follows from the request
        reason = why(ctl, execution, "request.waiting")
        assert f"kill -9 {router}" in reason["remedy"]
    finally:
        os.kill(router, signal.SIGKILL)  # as the remedy says; `up` starts another
    typed(ctl, why(ctl, execution, "wait.signal")["remedy"])
    assert ctl("watch", execution).returncode == 0
